"""Images of uint16 from files to tensors: every level arrives."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from stoker.client import Loader
from stoker.dataset.packing.pack import Options, pack

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_levels_of_16_bits_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])
    images = np.random.default_rng(1).integers(0, 65536, (8, 30, 40, 2), np.uint16)
    np.savez(tmp_path / "scans.npz", image=images)
    pack(tmp_path / "scans.npz", tmp_path / "packed", Options(workers=1, fields={"image": "image"}))
    with Loader(
        tmp_path / "packed",
        pipeline="wide_pipelines:wide",
        batch_size=8,
        shuffle=False,
        device=device,
        workers=1,
    ) as loader:
        (batch,) = loader
        crops = images[:, 3:27, 8:32]
        found = {name: np.asarray(batch[name]) for name in ("image", "unit", "mean")}
        assert found["image"].dtype == np.uint16
        assert np.array_equal(found["image"], crops.transpose(0, 3, 1, 2))
        assert np.array_equal(found["unit"], (crops / 65535).astype(np.float32))
        np.testing.assert_allclose(found["mean"], crops.mean((1, 2, 3)))
        wide = importlib.import_module("wide_pipelines").wide
        rows = [wide({"image": image}, kinds={"image": "image"})["small"] for image in images]
        assert np.array_equal(np.asarray(batch["small"]), rows)
