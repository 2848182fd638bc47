"""Maps of another size than their photographs, from stored pixels to batches: every run agrees."""

import law_pipelines
import numpy as np
import pytest

from stoker.dataset import schema, write

pytestmark = pytest.mark.slow

EPOCHS = range(2)
B = 8


@pytest.fixture(scope="module")
def halves(tmp_path_factory, photographs):
    """Cuts of photographs as JPEGs with grids, and maps in bands of half their size, rounded."""
    rng = np.random.default_rng(7)
    rows = []
    for number in range(30):
        photo = photographs[number % len(photographs)]
        height, width = rng.integers(120, 260, 2)
        cut = np.ascontiguousarray(photo[:height, :width])
        depth = np.ascontiguousarray(cut[number % 2 :: 2, ::2, 1].astype(np.uint16) * 201)
        rows.append({"image": cut, "depth": depth})
    dest = tmp_path_factory.mktemp("law") / "halves"
    fields = [schema.image(grid=True), schema.mask("depth", encoding="bands", dtype="uint16")]
    write(dest, fields, rows)
    return dest


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", ["halved", "halved_windows"])
def test_other_sizes_keep_the_law(daemon, halves, law, workers, name):
    graph = getattr(law_pipelines, name).graph()
    expected = law.reference(halves, graph, EPOCHS, batch_size=B, seed=3)
    with daemon(workers, datasets={"halves": halves}) as running:
        stream = {"pipeline": name, "dataset": "halves", "seed": 3}
        found = law.delivered(running.address, EPOCHS, workers, global_batch_size=B, **stream)
    assert found == expected
    assert len(set(found)) == len(found)
