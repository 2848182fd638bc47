"""`check_resume` passes for loaders that continue, and names step, output and row for others."""

import re
import shutil
from collections.abc import Iterator

import numpy as np
import pytest
from daemons import serving

from stoker.client import Loader
from stoker.client.testing import ResumeCheckError, check_resume
from stoker.dataset import schema, write

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]


PIPELINES = """
from stoker import ops
from stoker.pipeline import outputs, pipeline

@pipeline
def train(sample):
    image = ops.horizontal_flip(sample.image)
    return {"image": image, "label": sample.label, "words": outputs.ragged(sample.words)}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory, session_folder) -> Iterator[str]:
    """Address of a daemon that serves 11 samples."""
    root, folder = tmp_path_factory.mktemp("check"), session_folder / "check"
    folder.mkdir()
    (root / "check_pipelines.py").write_text(PIPELINES)
    rows = [
        {"image": np.full((4, 6, 3), n, "u1"), "label": n, "words": np.arange(n % 4, dtype="i4")}
        for n in range(11)
    ]
    fields = [schema.image(encoding="raw"), schema.label(), schema.array("words", "int32", (None,))]
    write(root / "packed", fields, rows)
    flags = [f"--dataset=tiny={root / 'packed'}", f"--python-path={root}", "--workers=1"]
    with serving(folder, *flags, "--pipeline=train=check_pipelines:train") as running:
        yield running.address
    shutil.rmtree(folder)


@pytest.fixture
def make(address):
    """Make loaders; an epoch has 5 steps of 2 rows."""
    return lambda **more: Loader(
        address, pipeline="train", **{"batch_size": 2, "device": "numpy", **more}
    )


class Wrapper:
    """A user's loader around a Loader; each test breaks one thing in it."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state):
        self.loader.load_state_dict(state)

    def close(self):
        self.loader.close()


def test_a_loader_continues(make) -> None:
    assert check_resume(make) == 5 + 1 + 4
    assert check_resume(make, epochs=1) == 5
    assert check_resume(make, every=2, rest=2) == 3 + 1 + 2
    assert check_resume(lambda: Wrapper(make())) == 10
    assert check_resume(lambda: make(as_tuple=("image", "label"))) == 10


def test_tensors(make) -> None:
    torch = pytest.importorskip("torch")
    with make(device="cpu") as loader:
        assert isinstance(next(iter(loader)).image, torch.Tensor)
    assert check_resume(lambda: make(device="cpu"), rest=2) == 10


def test_steps_that_are_left_out(make) -> None:
    """The first loader leaves them out; the others know of them from their states alone."""
    made = []

    def skipping():
        made.append(make())
        if len(made) == 1:
            made[0].skip_steps(0, [1, 4])
            made[0].skip_steps(1, [0])
        return made[-1]

    assert check_resume(skipping) == 3 + 1 + 3


def test_a_wrapper_that_drops_the_cursor(make) -> None:
    class Dropping(Wrapper):
        saved = None

        def load_state_dict(self, state):
            self.saved = state

        def state_dict(self):
            return self.saved or super().state_dict()

    says = (
        "continued from the state saved before step 1 of loop 0: the batch of step 1 of loop 0 "
        "(epoch 0, step 1) differs: row 0: output 'image' differs. It is the "
        "batch of step 0 of loop 0 (epoch 0, step 0): was the state loaded?"
    )
    with pytest.raises(ResumeCheckError, match=f"^{re.escape(says)}$"):
        check_resume(lambda: Dropping(make()))


def test_a_wrapper_that_forgets_to_pass_the_state_on(make) -> None:
    class Forgetting(Wrapper):
        def load_state_dict(self, state):
            pass

    with pytest.raises(
        ResumeCheckError, match=r"step 1 .*: state_dict\(\) right after load_state_"
    ):
        check_resume(lambda: Forgetting(make()))


def test_a_wrapper_that_counts_what_it_prefetched(make) -> None:
    class Ahead(Wrapper):
        """Its cursor is one batch ahead of the caller."""

        def __iter__(self):
            batches = iter(self.loader)
            ahead = next(batches)
            for batch in batches:
                yield ahead
                ahead = batch
            yield ahead

    with pytest.raises(ResumeCheckError, match=r"before step 1 of loop 0: the batch of step 1 of"):
        check_resume(lambda: Ahead(make()))


def test_one_row_of_one_output(make) -> None:
    """Noise that is not part of the state."""
    made = []

    class Noisy(Wrapper):
        def __iter__(self):
            for batch in self.loader:
                label = np.array(batch.label)
                label[1] += len(made) > 1 and batch.step == 4
                yield {"image": batch.image, "label": label}

    def loader():
        made.append(Noisy(make()))
        return made[-1]

    with pytest.raises(
        ResumeCheckError,
        match=r"before step 0 of loop 0: the batch of step 4 of loop 0 differs: row 1: "
        r"output 'label' differs$",
    ):
        check_resume(loader)


@pytest.mark.parametrize(
    ("batches", "says"),
    [
        (4, "the loop ends after 3 batches; expected 4, of which the next is that of step 4"),
        (6, "the loop goes on after 4 batches; expected its end there"),
    ],
)
def test_a_loop_of_another_length(make, batches: int, says: str) -> None:
    class Other(Wrapper):
        steps = 5

        def __iter__(self):
            taken = []
            for batch in self.loader:
                if batch.step < self.steps:
                    taken.append(batch)
                    yield batch
            yield from taken[:1] * (self.steps - 5)

        def load_state_dict(self, state):
            super().load_state_dict(state)
            if state["step"] == 1:
                self.steps = batches

    with pytest.raises(ResumeCheckError, match=rf"before step 1 of loop 0: {says}"):
        check_resume(lambda: Other(make()))


def test_other_outputs_rows_and_dtypes(make) -> None:
    def changed(change):
        class Changed(Wrapper):
            change = staticmethod(lambda batch: batch)

            def __iter__(self):
                return (self.change(dict(batch)) for batch in self.loader)

            def load_state_dict(self, state):
                super().load_state_dict(state)
                self.change = change

        return lambda: check_resume(lambda: Changed(make()))

    cases = {
        "outputs image instead of image, label, words": lambda b: {"image": b["image"]},
        "output 'label' is rows of int32 \\(\\) instead of rows of int64 \\(\\)": lambda b: {
            **b, "label": b["label"].astype("int32"),
        },
        "output 'label' has 1 rows instead of 2": lambda b: {**b, "label": b["label"][1:]},
    }  # fmt: skip
    for says, change in cases.items():
        with pytest.raises(ResumeCheckError, match=says):
            changed(change)()


@pytest.mark.parametrize(
    ("kind", "more", "states"),
    [
        (Loader, {"last": "short", "views": 2, "params": True}, 4 + 1 + 3),
        (Loader.for_evaluation, {}, 4 + 1 + 3),
        (Loader, {"rank": 1, "world_size": 2, "batch_size": 1}, 5 + 1 + 4),
    ],
    ids=["short", "evaluation", "rank"],
)
def test_other_streams(address, kind, more, states: int) -> None:
    options = {"pipeline": "train", "batch_size": 3, "device": "numpy", **more}
    assert check_resume(lambda: kind(address, **options)) == states
