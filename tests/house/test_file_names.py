"""A guard of names: a module's file name says what it holds, without the name of its folder.

Tracebacks, search results and editors' tabs show the file name first. A second file of the same
name has to be told from the first one by its folder.
"""

from collections import Counter
from pathlib import Path

BY_PYTHON = {"__init__.py", "__main__.py"}
"""Names that Python gives."""
BY_FFCV = {
    "base.py",
    "color_jitter.py",
    "loader.py",
    "mixup.py",
    "normalize.py",
    "random_resized_crop.py",
}
"""Names that FFCV gives to modules of compat/ffcv: scripts import them."""

SHARED: dict[str, int] = {
    "bands.py": 2,
    "blocks.py": 3,
    "color.py": 3,
    "float_sums.py": 2,
    "lookup.py": 2,
    "marked.py": 2,
    "memory.py": 2,
    "pixels.py": 2,
    "row_parameters.py": 2,
    "runs.py": 2,
    "sizes.py": 2,
    "streams.py": 2,
    "tap_sums.py": 2,
    "tap_tables.py": 2,
    "testing.py": 2,
    "transform.py": 2,
    "vectors.py": 2,
    "window.py": 2,
    "words.py": 2,
}
"""File name -> the number of modules with it. The list is older than the rule: it only shrinks."""


def test_no_two_modules_share_a_file_name(root: Path) -> None:
    tops = ("protocol", "server", "client")
    paths = [
        path
        for top in tops
        for path in (root / top / "stoker").rglob("*.py")
        if "ffcv" not in path.parts or path.name not in BY_FFCV
    ]
    counts = Counter(path.name for path in paths if path.name not in BY_PYTHON)
    found = {name: count for name, count in sorted(counts.items()) if count > 1}
    new = {
        name: sorted(str(path.relative_to(root)) for path in paths if path.name == name)
        for name, count in found.items()
        if count > SHARED.get(name, 1)
    }
    assert not new, "rename the new module: its name must say what it holds without its folder"
    assert found == SHARED, "the list only shrinks: remove the names that are no longer shared"
