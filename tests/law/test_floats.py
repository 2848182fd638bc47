"""Images of floats and masks of many classes, from stored pixels to batches: every run agrees."""

import law_pipelines
import numpy as np
import pytest

from stoker.dataset import schema, write

pytestmark = pytest.mark.slow

EPOCHS = range(2)
STREAM = {"pipeline": "floats", "dataset": "floats", "seed": 3}
B = 8


@pytest.fixture(scope="module")
def floats(tmp_path_factory, photographs):
    """Cuts of photographs as linear light of four channels, and as masks of 70,000 classes."""
    rng = np.random.default_rng(7)
    rows = []
    for number in range(30):
        photo = photographs[number % len(photographs)]
        height, width = rng.integers(40, 70, 2)
        cut = photo[:height, :width].astype(np.float32) / np.float32(255)
        linear = np.concatenate([cut * cut, cut[..., :1] - np.float32(0.5)], 2)
        mask = photo[:height, :width, 1].astype(np.int32) * 277
        rows.append({"image": linear, "mask": mask, "photo": photo[:height, :width].copy()})
    dest = tmp_path_factory.mktemp("law") / "floats"
    fields = [
        schema.image(encoding="raw", dtype="float32", channels=4),
        schema.mask(encoding="bands", dtype="int32"),
        schema.image("photo"),
    ]
    write(dest, fields, rows)
    return dest


@pytest.mark.parametrize("workers", [1, 3])
def test_floats_keep_the_law(daemon, floats, law, workers):
    graph = law_pipelines.floats.graph()
    expected = law.reference(floats, graph, EPOCHS, batch_size=B, seed=STREAM["seed"])
    with daemon(workers, datasets={"floats": floats}) as running:
        found = law.delivered(running.address, EPOCHS, workers, global_batch_size=B, **STREAM)
    assert found == expected
    assert len(set(found)) == len(found)
