"""Remove from an environment what a daemon never loads: `python slim.py /opt/stoker`.

For the image of the daemon (Dockerfile). Each pattern must match something, so that a new layout of
a package fails the build instead of growing the image. Install without bytecode (`pip install
--no-compile`): it is written here, for what a daemon imports. Needs `strip` (binutils).
"""

import shutil
import subprocess
import sys
from pathlib import Path

UNUSED = (
    "numba/**/tests",
    "numpy/**/tests",
    "llvmlite/tests",
    "pyarrow/tests",
    "pyarrow/include",  # to compile against Arrow, as the next three
    "pyarrow/**/*.pyx",
    "pyarrow/**/*.pxd",
    "pyarrow/**/*.pxi",
    "numpy/_core/include",
    "numpy/**/*.a",
    "pyarrow/*flight*",  # a protocol between databases
    "pyarrow/*arrow_s3*",  # no dataset is read from object storage
    "pyarrow/libarrow_python.so",  # two more copies of libarrow_python.so.VERSION
    "pyarrow/libarrow_python.so.*.*",
)
STRIPPED = (
    "llvmlite/binding/libllvmlite.so",
    "pyarrow/libarrow.so.*",
    "pyarrow/libarrow_compute.so.*",
)
USED = """
import cryptography, numba, PIL.Image, pyarrow.compute, pyarrow.parquet, simplejpeg
import stoker.server.__main__, stoker.server.daemon.daemon, stoker.server.workers.template
numba.njit(lambda: 0)()
"""
"""What must still run at the end. It writes the bytecode of what it imports; the rest has none."""


def unused(packages: Path) -> list[Path]:
    """The files and folders to remove. Raises ValueError if a pattern matches nothing."""
    found: list[Path] = []
    for pattern in UNUSED:
        matched = sorted(packages.glob(pattern))
        if not matched:
            raise ValueError(f"{packages}: nothing matches {pattern!r}; mend UNUSED in {__file__}")
        found += matched
    return found


def remove(packages: Path) -> None:
    """Remove what is unused from a folder of packages."""
    for path in unused(packages):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def strip(packages: Path) -> None:
    """Remove what only a linker or a debugger reads from the largest libraries.

    Not from all: `strip` breaks those whose loading path a wheel's tools have edited (numpy.libs).
    """
    for pattern in STRIPPED:
        (library,) = packages.glob(pattern)
        subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)


def main() -> None:
    """Run the command line."""
    root = Path(sys.argv[1])
    (packages,) = root.glob("lib/python*/site-packages")
    remove(packages)
    strip(packages)
    subprocess.run([str(root / "bin/python"), "-c", USED], check=True)


if __name__ == "__main__":
    main()
