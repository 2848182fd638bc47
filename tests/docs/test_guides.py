"""The tables of equivalents: what they name is there, and what they call absent is not."""

import re
from pathlib import Path

import pytest
from page_blocks import pages

import stoker.pipeline
from stoker import ops

ROOT = Path(__file__).parents[2]
COMING = [page for page in pages(ROOT) if "/coming-from-" in page]
NAMES = frozenset({*ops.__all__, *stoker.pipeline.__all__})


def rows(page: str) -> list[tuple[str, str]]:
    """(theirs, here) of each line of the tables of a page."""
    lines = (ROOT / page).read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return [(cell[0], cell[1]) for cell in cells if not cell[0].startswith("---")]


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("fn.")).lower()


def akin(left: str, right: str) -> bool:
    """Return whether one name begins with all words of the other."""
    return f"{left}_".startswith(f"{right}_") or f"{right}_".startswith(f"{left}_")


@pytest.mark.parametrize("page", pages(ROOT))
def test_every_op_that_a_page_names_exists(page):
    named = re.findall(r"`ops\.([a-z_0-9]+)", (ROOT / page).read_text())
    assert {name for name in named if name not in ops.__all__} == set()


@pytest.mark.parametrize("page", COMING)
def test_what_is_called_absent_is_absent(page):
    found = rows(page)
    assert len(found) > 10
    absent = [name for theirs, here in found if here == "absent" for name in codes(theirs)]
    there = [(name, ours) for name in absent for ours in NAMES if akin(snake(name), ours)]
    assert there == []


def codes(cell: str) -> list[str]:
    """The names in a cell, without arguments."""
    return [re.split(r"\W", name.removeprefix("fn."))[0] for name in re.findall(r"`([^`]+)`", cell)]


def test_names_that_are_akin():
    assert akin(snake("ElasticTransform"), "elastic")
    assert akin(snake("fn.jpeg_compression_distortion"), "jpeg_compression")
    assert akin("jpeg", "jpeg_compression")
    assert not akin("elastic", "elasticity")
    assert codes("`Resize((h, w))`, `fn.crop`") == ["Resize", "crop"]
