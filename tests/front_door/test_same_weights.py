"""A training through a Loader: its weights depend neither on the number of workers nor on kills.

The short form of `benchmarks/same_weights.py`, with the functions of that script.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from commands import pack_folder
from PIL import Image
from sample_photographs import sample_photographs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]
EPOCHS, BATCH, ROWS = 2, 4, 24


@pytest.fixture
def proof(monkeypatch: pytest.MonkeyPatch):
    """The script; what it sets in PyTorch is set back, and the scripts that it imports go."""
    scripts = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(str(scripts))
    for script in scripts.glob("*.py"):  # modules of tests may have the same name
        monkeypatch.delitem(sys.modules, script.stem, raising=False)
    before = set(sys.modules)
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    yield importlib.import_module("same_weights")
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(strict)
    for name in set(sys.modules) - before:
        if "/benchmarks/" in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def test_the_weights_of_a_training_are_the_same_whatever_is_killed(
    proof: ModuleType, tmp_path: Path
) -> None:
    """Two workers and the daemon are killed after delivered steps."""
    for label, pixels in enumerate(sample_photographs()):
        folder = tmp_path / "photos" / str(label)
        folder.mkdir(parents=True)
        for number in range(ROWS // 2):
            part = pixels[number : number + 240, 3 * number : 3 * number + 320]
            Image.fromarray(part).save(folder / f"{number}.jpg", quality=80)
    packed = pack_folder(tmp_path / "photos", tmp_path / "packed")
    calm, stormy = (
        proof.with_stoker(packed, workers, EPOCHS, plan, batch_size=BATCH, prefetch=1)
        for workers, plan in ((1, {}), (2, {2: proof.WORKER, 3: proof.WORKER, 6: proof.DAEMON}))
    )
    assert calm.steps == stormy.steps == EPOCHS * ROWS // BATCH
    assert (calm.kills, stormy.kills) == (0, 3)
    assert stormy.weights == calm.weights
    assert calm.weights != proof.digest_of(proof.network())
