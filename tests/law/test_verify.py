"""`verify=True` with real workers: digests and chains follow from the stream alone."""

import itertools

import pytest

from stoker.client import Loader
from stoker.protocol.errors import UsageError

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
B = 8


def chains(address: str, **options) -> list[tuple[int, int, str, str]]:
    """Two epochs: epoch, step, digest and chain of every batch."""
    given = {"device": "numpy", "global_batch_size": B, "seed": 5, "verify": True, **options}
    with Loader(address, **given) as loader:
        return [(b.epoch, b.step, b.digest, b.chain) for _ in range(2) for b in loader]


STREAMS = {
    "every form of output": {"dataset": "boxed", "pipeline": "varying", "total_epochs": 2},
    "batch ops": {"dataset": "photos", "pipeline": "mixed"},
    "padding, views, draw records": {
        "dataset": "photos", "pipeline": "crops", "views": 2, "params": True, "drop_last": False,
    },
}  # fmt: skip


def test_any_number_of_workers_gives_the_same_digests(address, daemon, every):
    expected = {name: chains(address, **stream) for name, stream in STREAMS.items()}
    for found in expected.values():
        assert len({digest for _, _, digest, _ in found}) == len(found) > 2 * 3
        assert len({chain for *_, chain in found}) == len(found)
    with daemon(1, "worker.row:kill:13:1,worker.chunk_done:kill:5:2", datasets=every) as running:
        for name, stream in STREAMS.items():
            assert chains(running.address, **stream) == expected[name], name
    whole, half = expected["batch ops"], len(expected["batch ops"]) // 2
    steps = whole[half - 1][1] + 1
    # From a cursor: another chain, the same digests.
    given = {"device": "numpy", "global_batch_size": B, "seed": 5, "verify": True}
    with Loader(address, **STREAMS["batch ops"], **given) as loader:
        loader.skip(steps - 1)
        later = [(b.step, b.digest, b.chain) for b in itertools.islice(loader, 1)]
    assert [digest for _, digest, _ in later] == [whole[half - 1][2]]
    assert later[0][2] != whole[half - 1][3]
    with pytest.raises(UsageError, match="verify: a rank can verify at most 32768 rows"):
        chains(address, **STREAMS["batch ops"] | {"views": 2**13})
