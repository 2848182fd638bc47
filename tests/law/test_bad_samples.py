"""5 % of the stored pictures are cut short: epochs complete, counts add up, all runs agree."""

import json

import law_pipelines
import numpy as np
import pytest
from damage import accept_damage
from law_rig import encoded

from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.protocol.digest import batch_digest
from stoker.server.rows.reference import reference_mix

pytestmark = pytest.mark.slow

ROWS = 120
BAD = {3: "image", 31: "mask", 64: "image", 65: "mask", 90: "image", 119: "mask"}
EPOCHS = range(2)
STREAM = {"pipeline": "padded", "dataset": "damaged", "seed": 6}
B = 16


@pytest.fixture(scope="module")
def damaged(tmp_path_factory, photographs):
    """Cuts of photographs as JPEG with PNG masks; of six the file ends before its time."""
    rng = np.random.default_rng(5)
    rows = []
    for number in range(ROWS):
        photo = photographs[number % len(photographs)]
        height, width = rng.integers(40, 64, 2)
        top, left = (rng.integers(0, side - 64) for side in photo.shape[:2])
        cut = np.ascontiguousarray(photo[top : top + height, left : left + width])
        mask = (cut.astype(int).sum(2) // 192).astype(np.uint8)
        rows.append({"image": encoded(cut, "JPEG"), "mask": encoded(mask, "PNG"), "label": 0})
    dest = tmp_path_factory.mktemp("law") / "damaged"
    write(dest, [schema.image(), schema.mask(), schema.label()], rows)
    with open_dataset(dest) as dataset:
        for number, field in BAD.items():
            file, offset = dataset.locate(field, number)
            size = len(dataset.read(field, number))
            with (dest / file.name).open("r+b") as data:
                data.seek(offset + size // 2)
                data.write(bytes(size - size // 2))
    accept_damage(dest)
    return dest


@pytest.fixture(scope="module")
def expected(damaged, law):
    """Digests by the interpreter in this process."""

    def reference(**given):
        return law.reference(
            damaged, law_pipelines.padded.graph(), EPOCHS, batch_size=B, seed=STREAM["seed"],
            tail="pad", **given,
        )  # fmt: skip

    return reference


def options(**more):
    return {**STREAM, "global_batch_size": B, "last": "pad", **more}


@pytest.mark.as_a_user
def test_an_epoch_completes_and_its_counts_add_up(daemon, damaged, law, expected, tmp_path):
    folder = tmp_path / "bad"
    more = f"[bad_samples]\nfolder = {json.dumps(str(folder))}"
    with daemon(3, datasets={"damaged": damaged}, more=more) as running:
        for policy in ("replace", "mask"):
            digests = expected(on_error=policy)
            given = options(on_error=policy)
            assert law.delivered(running.address, EPOCHS, 3, **given) == digests
            with Loader(running.address, device="numpy", **given) as loader:
                batches = list(loader)
                assert sum(int(batch.valid.sum()) for batch in batches) <= ROWS
                loader.set_epoch(0)
                for _batch, _ in zip(loader, range(3), strict=False):
                    state = loader.state_dict()
            index, requested, valid = (
                np.concatenate([batch[name] for batch in batches])
                for name in ("index", "requested", "valid")
            )
            assert sorted(requested[requested >= 0].tolist()) == list(range(ROWS))
            off = (index != requested).nonzero()[0]
            assert sorted(requested[off].tolist()) == sorted(BAD)
            assert not set(index.tolist()) & BAD.keys()
            assert valid.sum() == (ROWS if policy == "replace" else ROWS - len(BAD))
            rest = law.merged(
                [
                    law.one_rank(running.address, EPOCHS, state, rank=rank, world_size=2, **given)
                    for rank in range(2)
                ]
            )
            assert rest == digests[state["step"] :]
    (file,) = folder.iterdir()
    told = {line["id"]: line["field"] for line in map(json.loads, file.read_text().splitlines())}
    assert told == BAD
    with daemon(2, datasets={"damaged": damaged}) as running:
        given = options(exclude=file, on_error="raise")
        assert law.delivered(running.address, EPOCHS, 2, **given) == expected(exclude=BAD)


@pytest.mark.as_a_user
def test_substitutes_of_weighted_streams_and_mixtures(daemon, damaged, law, expected):
    """A weighted substitute has its own visits; in a mixture it is of the same dataset."""
    weights = [1.0 + 2 * (number in BAD) for number in range(ROWS)]
    with daemon(2, datasets={"damaged": damaged, "same": damaged}) as running:
        given = options(on_error="replace", weights=weights)
        digests = expected(on_error="replace", weights=weights)
        assert law.delivered(running.address, EPOCHS, 2, **given) == digests
        _check_replays(running.address, given, lambda visit: visit >= 2**47)
        del given["dataset"], given["weights"]
        given |= {"mix": {"damaged": 1, "same": 2}}
        parts = [(damaged, law_pipelines.padded.graph(), ratio) for ratio in (1.0, 2.0)]
        fields = {"batch_size": B, "seed": STREAM["seed"], "on_error": "replace"}
        digests = [
            batch_digest(arrays, epoch, step)
            for epoch in EPOCHS
            for step, arrays in reference_mix(parts, epoch=epoch, **fields)
        ]
        assert law.delivered(running.address, EPOCHS, 2, **given) == digests
        _check_replays(running.address, given, lambda visit: 1 <= visit <= ROWS)


def _check_replays(address, given, is_substitute):
    """Every replaced row of an epoch has the visit of a substitute, by which it is replayed."""
    replaced = 0
    with Loader(address, device="numpy", **{**given, "last": "drop"}) as loader:
        for batch in loader:
            (rows,) = np.nonzero(batch.index != batch.requested)
            for row in rows.tolist():
                assert batch.index[row] // ROWS == batch.requested[row] // ROWS
                assert is_substitute(batch["drawn_as"][row, 1])
            if len(rows) and not replaced:
                replayed = loader.replay_row(batch, rows[0])
                for value in replayed.outputs:
                    assert np.array_equal(value.array, batch[value.name][rows[0]])
            replaced += len(rows)
    assert replaced > len(BAD)
