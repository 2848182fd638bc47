"""All Python of all pages runs, or says why not; and the runner tells a fault by page and line."""

import subprocess
import sys
from pathlib import Path

import pytest
from page_blocks import PageError, blocks, is_run, pages

ROOT = Path(__file__).parents[2]
PACKAGES = "is not installed where the tests run"
NOT_RUN = {
    ("docs/client.md", "names datasets of a daemon that this page does not have"),
    ("docs/client.md", "needs a GPU for each rank"),
    ("docs/guides/coming-from-albumentations.md", f"Albumentations {PACKAGES}"),
    ("docs/guides/coming-from-dali.md", f"DALI {PACKAGES}"),
    ("docs/guides/coming-from-torchvision.md", f"torchvision {PACKAGES}"),
    ("docs/guides/frameworks.md", "JAX is not among the packages of the tests"),
    ("docs/guides/frameworks.md", "transformers is not among the packages of the tests"),
    ("docs/guides/measuring-any-loader.md", "data_of_yours stands for a dataset"),
    ("docs/guides/ray.md", "it needs a cluster of several nodes"),
    ("docs/guides/ray.md", "the example's test runs the program"),
}
"""Every block that is not run, as (page, reason): the hardware or the package that is missing."""
FRESH = {"docs/getting-started.md"}
"""Pages that run as readers run them, in a fresh interpreter."""


@pytest.mark.slow
@pytest.mark.timeout(600)  # with an empty cache the first pages compile their kernels
@pytest.mark.parametrize("page", [p for p in pages(ROOT) if is_run(ROOT / p) and p != "README.md"])
def test_a_page_does_what_it_shows(page, run_page):
    run_page(ROOT / page, new=page in FRESH)


def test_what_is_not_run_is_listed_with_its_reason():
    found = [
        (page, block.rest)
        for page in pages(ROOT)
        for block in blocks(ROOT / page)
        if block.word == "not run"
    ]
    assert sorted(found) == sorted(NOT_RUN)


@pytest.mark.slow
def test_the_command_of_contributing_runs_a_page_and_leaves_nothing(written, tmp_path):
    """It makes `photos`, and works in a folder of its own."""
    page = written(
        "```python\nfrom pathlib import Path\n\n"
        "assert len(list(Path('photos/images').glob('*/*.jpg'))) == 37\n```\n"
    )
    done = subprocess.run(
        [sys.executable, ROOT / "tests/docs/run_page.py", page],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == [page]


def test_getting_started_uses_the_data_that_it_makes():
    """A reader has no `photos`: every source of a command and every field is the page's own."""
    shown = "\n".join(
        block.text
        for block in blocks(ROOT / "docs/getting-started.md")
        if block.word in ("run", "file") or block.language == "python"
    )
    assert "photos" not in shown
    assert "stoker pack scenes packed" in shown


@pytest.fixture
def written(tmp_path):
    """written(text) -> a page of that text."""

    def write(text: str) -> Path:
        page = tmp_path / "shown.md"
        page.write_text(text)
        return page

    return write


def test_a_fault_is_told_by_page_and_line(written, run_page):
    page = written(
        "# Title\n\n```python\nx = 1\n```\n\nProse.\n\n```python\n\nassert x == 2, x\n```\n"
    )
    with pytest.raises(pytest.fail.Exception, match=r"shown\.md:11: AssertionError: 1$"):
        run_page(page)
    with pytest.raises(pytest.fail.Exception, match=r"shown\.md:4: SyntaxError: "):
        run_page(written("\n\n```python\nx = = 1\n```\n"))
    with pytest.raises(pytest.fail.Exception, match=r"shown\.md:3: FileNotFoundError: "):
        run_page(written("<!-- file: nowhere/x.toml -->\n```toml\n```\n"))
    serve = "stoker serve --address ipc:///run/stoker/x.sock --dataset x=nowhere"
    with pytest.raises(pytest.fail.Exception, match=r"shown\.md:3: RuntimeError: stoker serve: "):
        run_page(written(f"<!-- run -->\n```console\n{serve}\n```\n"))


def test_blocks_share_a_module_files_are_written_and_commands_run(written, run_page):
    page = written(
        "<!-- file: helper.py -->\n```python\nBORN = 1\n```\n```text\nx\n```\n"
        "<!-- run -->\n```console\nstoker --help\nmake no-such-target\n```\n"
        "<!-- hidden\n```python\ngiven = 2\n```\n-->\n"
        "<!--\n```console\nstoker ls --help\n```\n-->\n"
        "```python\nfrom helper import BORN\n```\n"
        "```python\nprint('sum', OLD + BORN + given)\n```\n"
        "<!-- not run: there is no such module -->\n```python\nimport no_such_module\n```\n"
    )
    printed = run_page(page, {"OLD": "40"})
    assert printed.count("Usage") == 2
    assert printed.splitlines()[-1] == "sum 43"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- skip -->\n```python\n```\n", r"shown\.md:1: <!-- skip --> means nothing above"),
        ("\n<!-- not run -->\n```python\n```\n", r"shown\.md:2: <!-- not run --> means nothing"),
        ("<!-- run -->\n```toml\n```\n", r"means nothing above a block of 'toml'"),
        ("```python\nx = 1\n", r"shown\.md: a fence is not closed"),
        ("```python hl\n```\n", r"or not of the form ```language"),
    ],
)
def test_what_means_nothing_is_refused(written, text, message):
    with pytest.raises(PageError, match=message):
        blocks(written(text))
