"""A sample that really kills its worker: the stream stops, goes on without it, or replaces it."""

import json

import law_pipelines
import law_sources
import pytest

from stoker.client import Loader
from stoker.protocol.errors import ResumeError, StreamStoppedError

pytestmark = pytest.mark.slow

ID = law_sources.CRASHES
EPOCHS = range(2)
STREAM = {"pipeline": "mixed", "dataset": "crashing", "seed": 2}
B = 7
STEPS = 6


@pytest.fixture(name="serve")
def serve_crashing(daemon):
    """Daemons that serve the source with one sample that kills."""

    def serve(more=""):
        return daemon(2, datasets={"crashing": "law_sources:Crashing"}, more=more)

    return serve


@pytest.fixture(scope="module")
def expected(datasets, law):
    """Digests by the interpreter, which never touches the sample either."""

    def reference(**given):
        return law.reference(
            "law_sources:Crashing", law_pipelines.mixed.graph(), EPOCHS, batch_size=B,
            seed=STREAM["seed"], tail="pad", **given,
        )  # fmt: skip

    return reference


def options(**more):
    return {**STREAM, "global_batch_size": B, "last": "pad", **more}


def stopped(loader) -> StreamStoppedError:
    """The error that ends an epoch, without the frames that it went through."""
    try:
        list(loader)
    except StreamStoppedError as error:
        return error.with_traceback(None)
    raise AssertionError("the stream did not stop")


@pytest.mark.as_a_user
def test_the_stream_stops_and_goes_on_under_an_exclude_list(serve, law, expected, tmp_path):
    folder = tmp_path / "bad"
    with serve(f"[bad_samples]\nfolder = {json.dumps(str(folder))}") as running:
        with Loader(running.address, device="numpy", **options()) as loader:
            found = stopped(loader)
            state = loader.state_dict()
        assert found.details["id"] == ID
        assert f"sample {ID} of dataset declared:" in found.message
        assert "killed or hung a worker 2 times, the last: killed by SIGSEGV;" in found.message
        assert found.message.endswith(f"leave it out: Loader(exclude=[{ID}])")
        changed = r"exclude: was None, is '1:[0-9a-f]{32}'"
        with (
            Loader(running.address, device="numpy", **options(exclude=[ID])) as loader,
            pytest.raises(ResumeError, match=changed),
        ):
            loader.load_state_dict(state)
        assert law.delivered(running.address, EPOCHS, **options(exclude=[ID])) == (
            expected(exclude=[ID])
        )
    (file,) = folder.iterdir()
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [ID]


@pytest.mark.as_a_user
def test_it_is_replaced_in_every_rank_and_after_a_resume(serve, law, expected, tmp_path):
    folder = tmp_path / "bad"
    more = f'[bad_samples]\ncrash_policy = "replace"\nfolder = {json.dumps(str(folder))}'
    digests = expected(crashed=[ID])
    with serve(more) as running:
        parts = [
            law.one_rank(running.address, EPOCHS, rank=rank, world_size=2, **options())
            for rank in range(2)
        ]
        assert law.merged(parts) == digests
        with Loader(running.address, device="numpy", **options()) as loader:
            for batch in loader:
                if ID in batch.requested:
                    state, stop = loader.state_dict(), batch.step + 1
                    assert ID not in batch.index
                    row = batch.requested.tolist().index(ID)
                    replayed = {
                        value.name: value for value in loader.replay_row(batch, row).outputs
                    }
                    assert replayed["image"].array.tobytes() == batch.image[row].tobytes()
                    break
        assert state["crashed"] == [ID]
    with serve() as running:  # with any crash policy of this daemon
        parts = [
            law.one_rank(
                running.address, EPOCHS[stop == STEPS :], state, rank=rank, world_size=3,
                **options(),
            )
            for rank in range(3)
        ]  # fmt: skip
        assert law.merged(parts) == digests[stop:]
        assert "SIGSEGV" not in running.log.read_text()
        (file,) = folder.iterdir()
        assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == [ID]
        delivered = law.delivered(running.address, EPOCHS, **options(exclude=file))
        assert delivered == expected(exclude=[ID])
