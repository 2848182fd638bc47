"""Maps of another size than their photographs, from stored pixels to batches: every run agrees."""

import law_pipelines
import numpy as np
import pytest
from law_rig import serving

from stoker.dataset import schema, write

pytestmark = pytest.mark.slow

EPOCHS = range(2)
B = 8
NAMES = ("halved", "halved_windows")


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


@pytest.fixture(scope="module")
def expected(halves, law):
    """Digests by the interpreter in this process."""
    return {
        name: law.reference(
            halves, getattr(law_pipelines, name).graph(), EPOCHS, batch_size=B, seed=3
        )
        for name in NAMES
    }


@pytest.fixture(scope="module", params=[1, 3], ids="{} workers".format)
def served(request, tmp_path_factory, halves):
    """Address of a daemon that serves them, and the number of its workers."""
    folder = tmp_path_factory.mktemp("halves")
    with serving(folder, {"halves": halves}, request.param) as running:
        yield running.address, request.param


@pytest.mark.parametrize("name", NAMES)
def test_other_sizes_keep_the_law(served, law, expected, name):
    address, ranks = served
    stream = {"pipeline": name, "dataset": "halves", "seed": 3}
    found = law.delivered(address, EPOCHS, ranks, global_batch_size=B, **stream)
    assert found == expected[name]
    assert len(set(found)) == len(found)
