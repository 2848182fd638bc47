"""The Ray Train example: two trainers read from a daemon that Ray placed."""

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from stoker.dataset import schema, write

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray_train" / "train.py"
ROWS = 64


def jpeg(label: int) -> bytes:
    """Return a photograph's worth of one color with noise: its label can be learned."""
    noise = np.random.default_rng(label).integers(0, 60, (80, 80, 3))
    noise[..., label % 3] += 150
    out = io.BytesIO()
    Image.fromarray(noise.astype(np.uint8)).save(out, "JPEG")
    return out.getvalue()


@pytest.mark.slow
def test_the_example_trains_and_its_checkpoint_has_the_cursor(tmp_path) -> None:
    rows = [{"image": jpeg(number), "label": number % 3} for number in range(ROWS)]
    write(tmp_path / "packed", [schema.image(), schema.label()], rows)
    command = [sys.executable, str(EXAMPLE), "packed", "--epochs=2", "--classes=3", "--out=out"]
    environment = {name: text for name, text in os.environ.items() if name != "RAY_ADDRESS"}
    with tempfile.TemporaryDirectory() as short:  # Ray's sockets have paths of at most 107 bytes
        environment["TMPDIR"] = environment["HOME"] = short
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
            timeout=400,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "epoch 1: loss" in done.stdout
    states = sorted((tmp_path / "out").glob("**/state.pt"))
    saved = [torch.load(state, weights_only=True) for state in states]
    assert [state["epoch"] for state in saved] == [0, 1]
    cursors = [(state["loader"]["epoch"], state["loader"]["step"]) for state in saved]
    assert cursors == [(0, 2), (1, 2)]
