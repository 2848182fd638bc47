"""Modules of users that have names of Python's own and of installed ones, and fail if imported."""

from pathlib import Path

TRAPS = ("socket", "types", "json", "numpy", "zmq", "tomllib")


def set_traps(folder: Path, told: Path) -> None:
    """Write modules that append their name to a file and raise an ImportError."""
    for name in TRAPS:
        (folder / f"{name}.py").write_text(
            f"open({str(told)!r}, 'a').write('{name} ')\nraise ImportError('a trap')\n"
        )
