"""Ops of values through a Loader: each row of a batch is what NumPy makes of the stored numbers."""

import shutil

import numpy as np
import pytest
from daemons import serving

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.pipeline import pipeline

pytestmark = pytest.mark.slow

SIDES = (24, 30)
WHITE = {"uint8": 255, "uint16": 65535, "float32": 1}
CHANGES = {
    "strong": ops.BrightnessContrast(0.4, 0.9, p=1),
    "by_mean": ops.BrightnessContrast(0.4, 0.9, brightness_by_max=False, p=1),
    "safe": ops.BrightnessContrast(0.4, 0.9, ensure_safe_range=True, p=1),
}


@pipeline
def brightened(sample):
    """Each dtype by each op; an op of one name has the same draws for all three."""
    return {
        f"{dtype}_{name}": op(sample[dtype], stream=name)
        for dtype in WHITE
        for name, op in CHANGES.items()
    }


@pytest.fixture(scope="module")
def stored():
    rng = np.random.default_rng(8)
    levels = rng.integers(0, 256, (4, *SIDES, 3), np.uint8)
    wide = rng.integers(0, 65536, (4, *SIDES, 3), np.uint16)
    return {"uint8": levels, "uint16": wide, "float32": (wide / 65535).astype(np.float32)}


@pytest.fixture(scope="module")
def open_loader(session_folder, stored):
    folder = session_folder / "values"
    fields = [schema.image(name, "raw", dtype=name, channels=3) for name in stored]
    rows = [{name: values[n] for name, values in stored.items()} for n in range(4)]
    folder.mkdir()
    write(str(folder / "data"), fields, rows)
    with serving(folder, f"--dataset=data={folder / 'data'}", "--workers=1") as daemon:
        yield lambda made: Loader(
            daemon.address, dataset="data", pipeline=made, batch_size=4, shuffle=False,
            device="numpy", params=True,
        )  # fmt: skip
    shutil.rmtree(folder)


def test_brightness_contrast_is_the_line_of_its_record(open_loader, stored):
    with open_loader(brightened) as loader:
        (batch,) = loader
        found = {name: np.array(value) for name, value in batch.items()}
        drawn = batch.params
    for dtype, white in WHITE.items():
        for name, op in CHANGES.items():
            for row, image in enumerate(stored[dtype].astype(np.float64)):
                record = drawn[name][row]
                a, b = 1 + record["contrast"], record["brightness"]
                b *= white if op.brightness_by_max else image.mean()
                if op.ensure_safe_range:
                    b = np.clip(b, 0, white)
                    a = min(a, 1 - b / white)
                expected = np.clip(a * image + b, 0, white)
                close = 1e-7 if dtype == "float32" else 0.5 + 1e-6
                assert np.abs(found[f"{dtype}_{name}"][row] - expected).max() <= close
