"""A sample's row is the same in any batch: any size, any place, padded or not."""

import law_pipelines
import numpy as np
import pytest

from stoker.protocol.spec import OrderSpec
from stoker.server.rows.reference import make_spec, reference_batches

EPOCH = 2
ROWS = 37


def rows(dataset, batch_size, shuffle, tail="pad"):
    """Sample id -> the bytes of its row, and the order in which the ids came."""
    graph = law_pipelines.crops.graph()
    order = OrderSpec(shuffle=shuffle)
    spec = make_spec(dataset, graph, batch_size=batch_size, seed=7, order=order, tail=tail)
    found = {}
    for _, batch in reference_batches(dataset, graph, spec, epoch=EPOCH):
        for place, number in enumerate(batch["index"].tolist()):
            if batch["valid"][place]:
                row = [np.asarray(batch[name][place]).tobytes() for name in ("image", "mask")]
                found[number] = b"".join(row)
    return found


@pytest.fixture(scope="module")
def one_by_one(dataset):
    return rows(dataset, 1, shuffle=False)


@pytest.mark.slow
@pytest.mark.parametrize(("batch_size", "shuffle"), [(5, False), (5, True), (37, True), (64, True)])
def test_the_batch_does_not_count(dataset, one_by_one, batch_size, shuffle):
    found = rows(dataset, batch_size, shuffle)
    assert found == one_by_one
    assert len(set(found.values())) == ROWS
    assert (list(found) == sorted(found)) is not shuffle


@pytest.mark.slow
def test_dropping_the_tail_changes_no_row(dataset, one_by_one):
    found = rows(dataset, 8, shuffle=True, tail="drop")
    assert len(found) == 32
    assert found.items() < one_by_one.items()
