"""Damage outside of what a row reads: the row is good, for workers, reference and replay alike.

Photographs on a grid and masks in bands, of which a worker decodes only the part that a crop reads.
In some of them a few bytes are wrong, at places from the first line to the last.
"""

import law_pipelines
import numpy as np
import pytest
from law_damage import DAMAGED, ROWS

from stoker.client import Loader
from stoker.protocol.size_buckets import Buckets

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]

B, EPOCHS = 8, range(2)
BAD = {number for _, number in DAMAGED}


SQUARES = Buckets(max_area=96 * 96, divisor=32, max_ratio=1)
BUCKETS = {"buckets": SQUARES, "total_epochs": len(EPOCHS)}


@pytest.mark.parametrize(
    ("name", "more"),
    [("crops", {}), ("evaluation", {}), ("mixed", {}), ("fitted", BUCKETS)],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("policy", ["mask", "replace"])
def test_rows_are_those_of_the_reference_and_of_replay(address, every, law, name, more, policy):
    """Whole, and resumed by another number of ranks.

    `evaluation` reads the part that a center crop leaves of a resized picture; `fitted` the part
    that is resized to the size of the sample's bucket.
    """
    graph = getattr(law_pipelines, name).graph()
    digests = law.reference(
        every["damaged"], graph, EPOCHS, batch_size=B, seed=3, on_error=policy, **more
    )
    options = {
        "pipeline": name, "dataset": "damaged", "seed": 3, "global_batch_size": B,
        "on_error": policy, **more,
    }  # fmt: skip
    assert law.delivered(address, EPOCHS, **options) == digests
    refused, replayed, ordered = set(), set(), set()
    with Loader(address, device="numpy", prefetch=2, **options) as loader:
        for batch in loader:
            if batch.step == 1:
                state = loader.state_dict()
            ordered |= set(batch.requested.tolist())
            refused |= set(batch.requested[batch.index != batch.requested].tolist())
            for row in np.flatnonzero(np.isin(batch.index, list(BAD))):
                found = loader.replay_row(batch, int(row))
                for output in found.outputs:
                    assert output.array.tobytes() == batch[output.name][row].tobytes()
                number = int(batch.index[row])
                told = {value.name for value in found.fields if value.damage}
                assert told == {field for field, other in DAMAGED if other == number}
                replayed.add(number)
    rest = law.merged(
        [
            law.one_rank(address, EPOCHS, state, rank=rank, world_size=2, **options)
            for rank in range(2)
        ]
    )
    assert rest == digests[2:]
    assert refused | replayed == BAD & ordered  # buckets carry some on into the next epoch
    assert more or ordered == set(range(ROWS))
    assert refused
    assert replayed
