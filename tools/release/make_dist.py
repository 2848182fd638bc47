"""Make what a release uploads, and try it as its users do.

    python tools/release/make_dist.py [PYTHON ...]

Builds sdist and wheel of the last commit into dist/, and writes their bill of materials (CycloneDX)
and the licenses of what they need beside them. Each interpreter (python3.11, python3.12 and
python3.13 unless others are named) tries the wheel. Any mistake ends it with status 1.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import archives
import fresh_users
import licenses

OUT: Final = archives.ROOT / "dist"
PYTHONS: Final = ("python3.11", "python3.12", "python3.13")
EXTRAS: Final = "server,keys"
"""What the bill of materials covers; PyTorch, Ray and plots are the user's own."""


def bill(python: Path, path: Path) -> str:
    """Write the bill of materials of an environment; return the table of its licenses."""
    tool = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    about = ["--pyproject", archives.ROOT / "pyproject.toml", "--mc-type", "library"]
    subprocess.run([*tool, *about, "-o", path, python], check=True)
    return licenses.table(json.loads(path.read_text("utf-8"))["components"])


def make(pythons: Sequence[str]) -> None:
    """Make and try everything."""
    shutil.rmtree(OUT, ignore_errors=True)
    sdist, wheel = archives.build(OUT)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", sdist, wheel], check=True)
    name = wheel.name.split("-py3")[0]
    with tempfile.TemporaryDirectory() as home:
        inside = fresh_users.install(sys.executable, wheel, Path(home), EXTRAS)
        licensed = bill(inside, OUT / f"{name}.cdx.json")
        (OUT / f"{name}-licenses.md").write_text(licensed, "utf-8")
    for python in pythons:
        version = fresh_users.version_of(python)
        if version is None:
            print(f"{python}: not tried, it does not start here")
            continue
        with tempfile.TemporaryDirectory() as home:
            inside = fresh_users.install(python, wheel, Path(home), "server")
            fresh_users.check_types(inside)
            fresh_users.run_guide(inside)
        print(f"Python {version}: docs/getting-started.md runs, mypy --strict sees the types")
    print("\n".join(["dist/", *(f"  {path.name}" for path in sorted(OUT.iterdir()))]))


def main(pythons: list[str]) -> int:
    """Make and try everything; return the exit status."""
    try:
        make(pythons or PYTHONS)
    except (archives.ArchiveError, licenses.LicenseError, subprocess.CalledProcessError) as error:
        print(f"make dist: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    sys.exit(main(sys.argv[1:]))
