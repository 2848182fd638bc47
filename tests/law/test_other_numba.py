"""With a numba that was not tested, a daemon delivers the same bytes, and its log says it once."""

import numpy as np
import pytest
from daemons import Daemon
from law_rig import flags

from stoker import ops
from stoker.dataset import schema, write
from stoker.pipeline import pipeline

NEWER = """
import sys, types
version = types.ModuleType("numba._version")
version.get_versions = lambda: {"version": "0.99.0"}
sys.modules["numba._version"] = version
"""
"""A newer numba: the installed one, under another version."""


@pipeline
def flipped(sample):
    return {"image": ops.horizontal_flip(sample.image), "label": sample.label}


@pytest.mark.slow
def test_the_bytes_are_the_same(law, tmp_path, monkeypatch):
    images = np.random.default_rng(3).integers(0, 256, (11, 6, 9, 3), np.uint8)
    fields = [schema.image(encoding="raw"), schema.label()]
    rows = [{"image": image, "label": label} for label, image in enumerate(images)]
    write(tmp_path / "packed", fields, rows)
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer/sitecustomize.py").write_text(NEWER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "newer"))
    stream = {"batch_size": 4, "seed": 5}
    daemon = Daemon(tmp_path, *flags(tmp_path, {"images": tmp_path / "packed"}, workers=2))
    monkeypatch.undo()
    try:
        found = law.delivered(
            daemon.address, range(2), dataset="images", pipeline=flipped, **stream
        )
        assert daemon.stop() == 0
    finally:
        daemon.close()
    assert found == law.reference(tmp_path / "packed", flipped.graph(), range(2), **stream)
    assert daemon.log.read_text().count("numba 0.99.0 was not tested with this Stoker") == 1
