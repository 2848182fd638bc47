"""The shipped archives hold every module, and the wheel works with its bare dependencies.

The environment is a real one: its own prefix, the unpacked wheel, and links to the distributions
that the wheel's metadata requires. Other packages of this environment cannot be imported there.
"""

import importlib.metadata
import json
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

TOPS = ("protocol", "server", "client")
CORE = {"msgpack", "msgspec", "numpy", "pyzmq", "xxhash"}
ABSENT = (
    "torch",
    "numba",
    "pyarrow",
    "PIL",
    "simplejpeg",
    "typer",
    "rich",
    "matplotlib",
    "prometheus_client",
)


@pytest.fixture(scope="module")
def built(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built out of that sdist."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def bare(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel and what it requires, nothing else."""
    home = tmp_path_factory.mktemp("bare") / "env"
    venv.create(home, with_pip=False, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(packages)
    for name in CORE:
        for file in importlib.metadata.files(name) or ():
            top = file.parts[0]
            if top != ".." and not (packages / top).exists():
                (packages / top).symlink_to(Path(str(file.locate())).parents[len(file.parts) - 2])
    return home / "bin" / "python"


def run(python: Path, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-I", "-W", "error", "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def modules(names: list[str]) -> set[str]:
    return {n for n in names if n.startswith("stoker/") and n.endswith((".py", ".pyi", "py.typed"))}


@pytest.mark.slow
def test_the_archives_hold_every_module(root: Path, built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        inside = ["/".join(name.split("/")[1:]) for name in archive.getnames()]
    with zipfile.ZipFile(built[1]) as archive:
        wheel = modules(archive.namelist())
    source = {name.split("/", 1)[1] for name in inside if name.startswith(TOPS)}
    assert wheel == modules(list(source))
    assert len(wheel) > 20
    on_disk = {
        str(path.relative_to(root / top))
        for top in TOPS
        for path in (root / top / "stoker").rglob("*.py")
    }
    assert on_disk == {name for name in wheel if name.endswith(".py")}
    wanted = ["README.md", "LICENSE", "pyproject.toml", "tests/conftest.py", "deploy/compose.yaml"]
    assert [name for name in wanted if name not in inside] == []


@pytest.mark.slow
def test_the_wheel_says_what_it_needs(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
        licenses = [n for n in archive.namelist() if n.endswith("licenses/LICENSE")]
    needed = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata, re.MULTILINE)
    assert set(needed) == CORE
    assert "License-Expression: Apache-2.0" in metadata
    assert len(licenses) == 1


@pytest.mark.slow
def test_the_environment_is_bare(bare: Path, tmp_path: Path) -> None:
    code = (
        "import importlib.util, json, sys\n"
        "print(json.dumps([n for n in sys.argv[1:] if importlib.util.find_spec(n)]))"
    )
    command = [str(bare), "-I", "-c", code, *ABSENT, *CORE - {"pyzmq"}, "zmq"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == CORE - {"pyzmq"} | {"zmq"}


@pytest.mark.slow
def test_a_pipeline_is_written_without_the_server(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(AUTHOR)
    done = run(bare, "import runpy; runpy.run_path('code.py')", tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[0-9a-f]{32}\n", done.stdout)
    here = subprocess.run(
        [sys.executable, "code.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert here.stdout == done.stdout, "the pipeline id depends on what is installed"


@pytest.mark.slow
def test_the_namespace_runs_as_a_module(bare: Path, tmp_path: Path) -> None:
    command = [str(bare), "-I", "-m", "stoker"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "pip install 'stoker[server]'" in done.stderr) == (1, True)
    version = run(bare, "import stoker.client; print(stoker.client.__version__)", tmp_path)
    assert version.stdout == f"{importlib.metadata.version('stoker')}\n", version.stderr


AUTHOR = """
import json
from stoker import ops
from stoker.client import Loader
from stoker.pipeline import Graph, pipeline, pipeline_id

@pipeline
def train(sample):
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=128)
    image, mask = ops.horizontal_flip(image, mask, p=0.5)
    return {"image": image, "mask": mask, "label": sample.label}

graph = train.graph()
again = Graph.from_data(json.loads(json.dumps(graph.to_data())))
assert pipeline_id(again) == pipeline_id(graph)
print(pipeline_id(graph))
"""


@pytest.mark.slow
def test_the_command_says_what_to_install(bare: Path, tmp_path: Path) -> None:
    done = run(
        bare, "import sys; from stoker.server.__main__ import main; sys.exit(main())", tmp_path
    )
    assert done.returncode != 0
    assert "stoker[server]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_client_knows_no_server(tmp_path: Path) -> None:
    code = (
        "import stoker.client, sys;"
        "print(sorted(n for n in sys.modules if n.startswith('stoker.') and n.count('.') == 1))"
    )
    done = run(Path(sys.executable), code, tmp_path)
    assert (done.returncode, done.stdout) == (0, "['stoker.client', 'stoker.protocol']\n")
