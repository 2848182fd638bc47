"""slim.py, which takes from the daemon's image what it never loads."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numba
import pyarrow
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def slim(deploy: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("slim", deploy / "slim.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_pattern_matches_in_the_pinned_packages(slim: ModuleType) -> None:
    packages = Path(numba.__file__).parents[1]
    found = slim.unused(packages)
    assert {path.relative_to(packages).parts[0] for path in found} == {
        "llvmlite",
        "numba",
        "numpy",
        "pyarrow",
    }
    for pattern in slim.STRIPPED:
        assert len(list(packages.glob(pattern))) == 1


def test_a_pattern_without_a_match_is_an_error(slim: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing matches 'numba/\*\*/tests'; mend UNUSED"):
        slim.unused(tmp_path)


@pytest.mark.slow
def test_what_is_left_of_arrow_reads_parquet(
    slim: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    shutil.copytree(Path(pyarrow.__file__).parent, packages / "pyarrow", copy_function=os.symlink)
    monkeypatch.setattr(slim, "UNUSED", [p for p in slim.UNUSED if p.startswith("pyarrow")])
    slim.remove(packages)
    pq.write_table(pyarrow.table({"x": [1, 2, 3]}), tmp_path / "t.parquet")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import pyarrow.compute as pc, pyarrow.parquet as pq\n"
        "print(pq.__file__.startswith(sys.argv[1]), pc.sum(pq.read_table(sys.argv[2])['x']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(packages), str(tmp_path / "t.parquet")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("True 6\n", 0), done.stderr
