"""The documentation site: where pages and links lead, what a docstring becomes, what is refused.

`make check` builds the site itself.
"""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def tool(root, monkeypatch):
    """tool(name) -> a module of tools/site."""
    monkeypatch.syspath_prepend(str(root / "tools/site"))

    def get(name: str) -> ModuleType:
        return import_module(name)

    return get


def test_links_lead_to_where_files_stand_on_the_site(root, tool):
    page = root / "docs/guides/boxes.md"
    text = (
        "[a](../client.md#mixtures) ![b](../images/preview.jpg) [c](randomness.md)\n"
        "[d](../../CONTRIBUTING.md) [e](../../deploy/stoker.toml) [f](../../deploy/README.md)\n"
        "[g](#here) [h](https://example.org/x.md) [i](../README.md) [j](../../README.md#install)\n"
        "[k](../../.ci/run) [`l`](../ops.md) [m](missing.md)\n"
    )
    new, linked = tool("staging").moved(page, text)
    assert new == (
        "[a](../client.md#mixtures) ![b](../images/preview.jpg) [c](randomness.md)\n"
        "[d](../repository/CONTRIBUTING.md) [e](../repository/deploy/stoker.toml.md) "
        "[f](../repository/deploy.md)\n"
        "[g](#here) [h](https://example.org/x.md) [i](../contents.md) [j](../index.md#install)\n"
        "[k](../repository/ci/run.md) [`l`](../ops.md) [m](missing.md)\n"
    )
    assert root / "deploy/stoker.toml" in linked
    assert len(linked) == 10


def test_code_stays_as_it_is_and_comments_are_left_out(root, tool):
    code = "`[a](../README.md)`\n\n```text\n[b](../README.md)\n```\n"
    hidden = "<!-- run -->\n", "<!--\n```python\nimport torch\n```\n-->\n"
    new, linked = tool("staging").moved(root / "docs/ops.md", hidden[0] + code + hidden[1])
    assert (new, linked) == (code, set())


def test_pages_take_along_what_they_link_to(root, tool, tmp_path):
    """docs/operations.md links to the unit, docs/architecture.md has a diagram."""
    tool("staging").stage(tmp_path, lambda text: f"<svg>{text}</svg>")
    unit = (root / "deploy/stoker.service").read_text()
    assert (
        f"``````ini\n{unit}``````\n"
        in (tmp_path / "repository/deploy/stoker.service.md").read_text()
    )
    page = (tmp_path / "architecture.md").read_text()
    assert "![Diagram: Processes](architecture-1.svg){.diagram}" in page
    assert "mermaid" not in page
    assert (tmp_path / "architecture-1.svg").read_text().startswith("<svg>flowchart LR\n")


def test_llms_txt_leads_to_the_pages_of_the_index(tool, tmp_path):
    tool("staging").stage(tmp_path, lambda text: text)
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference/stoker.client.md").touch()
    tool("assistants").write_index(tmp_path)
    text = (tmp_path / "llms.txt").read_text()
    links = re.findall(r"\]\(([^)#]+)", text)
    assert text.startswith("# Stoker\n\n> ")
    assert {"SKILL.md", "getting-started.md", "repository/deploy.md"} <= {*links}
    assert [link for link in links if not (tmp_path / link).is_file()] == []
    tool("assistants").copy_pages(tmp_path, tmp_path / "html")
    copied = tmp_path / "html/guides/boxes.md"
    assert copied.read_bytes() == (tmp_path / "guides/boxes.md").read_bytes()


def test_the_navigation_is_the_index(tool):
    text = (
        "# Index\n\n[left out](ops.md)\n\n## One\n\n- [pages](packing.md): a\n[Ops](ops.md) [b](\n"
        "\n## Two\n\n![a](images/preview.jpg)\n\n### Inner\n\n- [Deploying](../deploy/README.md):\n"
        "  [more](guides/boxes.md#x) [boxes](guides/boxes.md)\n"
    )
    home, one, two, api = tool("navigation").of_index(text)
    assert home == {"Home": "index.md"}
    assert one == {
        "One": [{"Pages": "packing.md"}, {"Ops": "ops.md"}, {"Op gallery": "gallery.md"}]
    }
    assert two == {
        "Two": [{"Inner": [{"Deploying": "repository/deploy.md"}, {"Boxes": "guides/boxes.md"}]}]
    }
    assert {"stoker.client": "reference/stoker.client.md"} in api["API"]


@pytest.mark.slow
def test_a_dead_link_ends_the_build(root, tmp_path):
    settings = (root / "tools/site/mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(f"{settings}nav:\n  - Home: index.md\n")
    page = tmp_path / "pages/index.md"
    page.parent.mkdir()
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    statuses = []
    for text in ("[a](#one-two)\n\n## One, two\n", "[a](#one_two)\n\n## One, two\n"):
        page.write_text(text)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        statuses.append((done.returncode, "anchor does not exist" in done.stdout + done.stderr))
    assert statuses == [(0, False), (1, True)]


DRAWING = """
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from diagrams import Drawings

drawings = Drawings(Path.cwd())
first = drawings(RIGHT := "flowchart LR\\n    A[daemon] --> B[client]\\n")
(kept,) = Path.cwd().iterdir()
kept.write_text("<svg>kept</svg>")
print(first[:4], "daemon" in first, drawings(RIGHT))
drawings("flowchart LR\\n    A[daemon --> B\\n")
"""


@pytest.mark.slow
def test_a_diagram_is_drawn_once_and_a_wrong_one_ends_the_build(root, tmp_path):
    command = [sys.executable, "-c", DRAWING, str(root / "tools/site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "<svg True <svg>kept</svg>\n", done.stderr
    assert done.returncode == 1
    assert re.search("RuntimeError: .*[Pp]arse error on line", done.stderr), done.stderr


class Base:
    """A base.

    Attributes:
        side: in pixels.
    """

    def kept(self) -> None:
        """Keep."""


class Derived(Base):
    """A class of the page.

    Args:
        given: (rows, n) float32,
            on two lines.

    Raises:
        ValueError: it is wrong.
    """

    def __init__(self, given: "Path | None" = None, *, name: str = "x") -> None:
        self.given = given, name

    def own(self, *more: int) -> list[Path]:
        """See docs/client.md."""


def test_a_class_becomes_its_signature_docstring_and_own_members(tool, monkeypatch):
    monkeypatch.setattr(Base, "__module__", "stoker.shown")
    monkeypatch.setattr(Derived, "__module__", "stoker.shown")
    reference = tool("reference")
    text = "\n".join(reference.entry("Derived", Derived, {Base, Derived}))
    assert text == (
        "## Derived\n\n"
        "```python\nclass Derived(given: Path | None = None, *, name: str = 'x')\n```\n\n"
        "A class of the page.\n\n"
        "**Arguments**\n\n- `given`: (rows, n) float32, on two lines.\n\n"
        "**Raises**\n\n- `ValueError`: it is wrong.\n\n"
        "### Derived.own\n\n```python\nDerived.own(*more: int) -> list[Path]\n```\n\n"
        "See [client](../client.md).\n"
    )
    alone = "\n".join(reference.entry("Derived", Derived, {Derived}))
    assert "### Derived.kept\n" in alone


def test_every_name_of_a_reference_page_is_described(tool):
    """Of the modules that users import first; ops by name have docs/ops.md."""
    reference = tool("reference")
    for name in ("stoker.client", "stoker.pipeline", "stoker.protocol.errors"):
        sections = re.split(r"^##+ ", reference.page(name), flags=re.M)[1:]
        bare = [part.split("\n", 1)[0] for part in sections if len(part.split("```")[-1]) < 10]
        assert len(sections) > 20
        assert bare == []
    assert "HorizontalFlip" not in reference.public_names(import_module("stoker.ops"))


def test_the_gallery_has_every_picture(root, tool):
    page = tool("gallery").page(root / "docs")
    pictures = {
        str(path.relative_to(root / "docs")) for path in (root / "docs/images").glob("*ops/*.jpg")
    }
    assert set(re.findall(r"\]\((images/[^)]+)\)\]", page)) == pictures
