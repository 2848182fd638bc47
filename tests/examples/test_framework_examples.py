"""The examples of frameworks train on one daemon; those whose package is missing are skipped."""

import gc
import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from daemons import serving
from stand_ins import free_ports
from warm import Script

from stoker.dataset import schema, write

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
IN_ONE_PROCESS = {
    "plain_pytorch": "torch",
    "with_accelerate": "accelerate",
    "with_jax": "jax",
    "with_lightning": "pytorch_lightning",
    "with_timm": "timm",
    "with_torchdata": "torchdata",
    "with_transformers": "transformers",
}
"""Example -> the package that it needs."""
ALL = {*IN_ONE_PROCESS, "distributed"}
SHARED = "pictures"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(session_folder: Path) -> Iterator[str]:
    """A daemon with 64 images, dark ones and bright ones."""
    folder = session_folder / "framework_examples"
    folder.mkdir()
    rng = np.random.default_rng(0)
    dark = rng.integers(0, 120, (64, 40, 40, 3)).astype(np.uint8)
    rows = [{"image": image + 120 * (n % 2), "label": n % 2} for n, image in enumerate(dark)]
    fields = [schema.image(encoding="raw"), schema.label(classes=("dark", "bright"))]
    write(folder / "packed", fields, rows)
    with serving(folder, f"--dataset=images={folder}/packed", "--workers=1") as daemon:
        yield daemon.address
    shutil.rmtree(folder)


@pytest.fixture
def run(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> Iterator[Callable[..., list[str]]]:
    """run(example) -> the lines that it prints, run in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def do(example: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [example, address])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runpy.run_path(str(EXAMPLES / f"{example}.py"), run_name="__main__")
            gc.collect()  # the Loader of a trainer is closed when the trainer dies
        return capsys.readouterr().out.splitlines()

    yield do
    sys.modules.pop(SHARED, None)


def losses(lines: list[str]) -> list[float]:
    found = [re.fullmatch(r"epochs? (\d+): loss (-?\d+\.\d+)", line) for line in lines]
    return [float(match[2]) for match in found if match]


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == ALL | {SHARED}
    for path in EXAMPLES.glob("*.py"):
        assert path.read_text().count("\n") < 80, path


@pytest.mark.parametrize("example", IN_ONE_PROCESS)
def test_an_example_trains(example: str, run: Callable[..., list[str]]) -> None:
    package = IN_ONE_PROCESS[example]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    lines = run(example)
    if example == "with_torchdata":
        assert lines == ["continued at batch 3: True"]
        return
    found = losses(lines)
    assert len(found) == (1 if example == "with_transformers" else 2), lines
    assert 0 <= found[-1] < 0.5, "by chance it is 0.69"


@pytest.mark.parametrize("example", ["plain_pytorch", "with_accelerate"])
def test_an_example_goes_on_after_its_checkpoint(example: str, run: Callable[..., list[str]]):
    if importlib.util.find_spec(IN_ONE_PROCESS[example]) is None:
        pytest.skip(f"{IN_ONE_PROCESS[example]} is not installed")
    assert len(losses(run(example))) == 2
    assert run(example) == [], "both epochs are done"


@pytest.mark.parametrize("more", [[], ["--shard"]])
def test_ranks_train_together(address: str, more: list[str], tmp_path: Path) -> None:
    """As `torchrun` starts them."""
    port = free_ports()
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    path = EXAMPLES / "distributed.py"
    ranks = []
    for rank in ("0", "1"):
        mine = {"RANK": rank, "LOCAL_RANK": rank, "PYTHONPATH": str(EXAMPLES), **job}
        ranks.append(
            Script(
                path,
                address,
                *more,
                stdout=subprocess.PIPE,
                cwd=tmp_path,
                env={**os.environ, **mine},
                imports=["torch.distributed"],
            )
        )
    first, second = (rank.communicate(timeout=120)[0] for rank in ranks)
    assert [rank.returncode for rank in ranks] == [0, 0]
    found = losses(first.splitlines())
    assert len(found) == 2
    assert 0 <= found[1] < found[0] < 0.69
    assert losses(second.splitlines()) == []
