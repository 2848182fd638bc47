"""Every link of the documentation resolves, and the check itself notices dead ones."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "links.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_documentation_has_no_dead_links() -> None:
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr


def test_dead_links_are_named(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# One `word`, [two](x.md)\n\n## Same\n## Same\n")
    (tmp_path / "a.md").write_text(
        "[good](docs/page.md) [good](docs/page.md#one-word-two) [good](docs/page.md#same-1)\n"
        "[dead](docs/other.md)\n[dead](docs/page.md#three) [web](https://example.org/x)\n"
        "```\n[code](nowhere.md)\n```\n`[code](nowhere.md)`\n"
        '[out](../out.md) ![picture](none.png "title") [self](#none)\n\n[ref]: gone.md\n'
    )
    done = run(str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "a.md:2: docs/other.md: no such file",
        "a.md:3: docs/page.md#three: no such heading",
        "a.md:8: ../out.md: leads out of the repository",
        "a.md:8: none.png: no such file",
        "a.md:8: #none: no such heading",
        "a.md:10: gone.md: no such file",
        "docs/page.md:1: x.md: no such file",
        "2 pages, 7 dead links",
    ]


def test_a_folder_without_pages_is_no_success(tmp_path: Path) -> None:
    assert run(str(tmp_path)).returncode == 1


def test_every_page_is_in_the_index(root: Path) -> None:
    index = (root / "docs" / "README.md").read_text()
    pages = {str(p.relative_to(root / "docs")) for p in (root / "docs").rglob("*.md")}
    assert len(pages) > 10
    assert sorted(p for p in pages - {"README.md"} if f"]({p})" not in index) == []


def test_pages_that_the_code_names_exist(root: Path, tracked: list[Path]) -> None:
    named = {
        name
        for path in tracked
        if path.suffix in (".py", ".toml", ".yaml") and not path.is_relative_to(root / "tests")
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text())
    }
    assert len(named) > 3
    assert sorted(name for name in named if not (root / name).is_file()) == []
