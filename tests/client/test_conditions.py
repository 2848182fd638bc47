"""Conditions and arithmetic on arrays through a daemon, in both styles, against plain NumPy."""

import shutil

import numpy as np
import pytest
from daemons import serving

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.pipeline import branching, outputs, pipeline
from stoker.protocol.errors import BuildError, SampleError

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
ROWS = 12
STREAM = {"dataset": "rows", "batch_size": 4, "device": "numpy", "shuffle": False}


def sample_of(n):
    rng = np.random.default_rng(n)
    return {
        "image": rng.integers(0, 256, (20 + n, 24, 3), np.uint8),
        "box": np.float32([n, 2, n + 3 * n, 30]),
        "vector": rng.integers(-9, 9, 5).astype(np.int32),
        "tokens": rng.integers(0, 50, n % 5, np.int64),
        "boxes": {"xyxy": [[1, 2, 9, 9]] * (n % 3)},
        "place": n % 7,
        "label": n % 2,
        "factor": 0.1 * n,
    }


@pytest.fixture(scope="module")
def daemon(session_folder, tmp_path_factory):
    fields = [
        schema.image(encoding="raw"),
        schema.array("box", "float32", (4,)),
        schema.array("vector", "int32", (5,)),
        schema.array("tokens", "int64", (None,)),
        schema.boxes(),
        schema.scalar("place", "int64"),
        schema.label(),
        schema.scalar("factor", "float32"),
    ]
    data, folder = tmp_path_factory.mktemp("rows") / "packed", session_folder / "conditions"
    write(str(data), fields, [sample_of(n) for n in range(ROWS)])
    folder.mkdir()
    with serving(folder, f"--dataset=rows={data}", "--workers=1") as running:
        yield running
    shutil.rmtree(folder)


@branching
def weighed(vector, factor):
    """An integer array or one of floats, without a cast."""
    if vector.sum() < 0:
        vector = vector * factor
    return vector


@pipeline
def as_function(sample):
    image, box, vector = ops.resize(sample.image, size=(16, 16)), sample.box, sample.vector
    if box[2] - box[0] > 12:
        image = ops.to_float(image)
    if len(sample.boxes) > 0 and sample.image.shape[0] > 22:
        kind = vector[-1] * 2 + 1
    elif (vector > 5).any() or not (vector >= -8).all():
        kind = 0.5
    else:
        kind = -1 if len(sample.tokens) == 0 else sample.tokens.sum()
    return {
        "image": image,
        "kind": kind,
        "wide": 0 < box[2] - box[0] < 20,
        "vector": weighed(vector, sample.factor),
        "scaled": ops.unlinked((box * 0.5 + 1) / sample.factor),
        "mask": (vector > 2) & (vector < vector.max()),
        "first": len(sample.tokens) > 0 and 10 < sample.tokens[0] < 40,
        "last": not len(sample.tokens) or sample.tokens[-1] > 25 or sample.tokens[0] == 3,
        "tokens": outputs.ragged(sample.tokens % 7 - 1),
        "padded": outputs.pad(sample.tokens * 2, fill=-1),
    }


@pipeline
class AsClass:
    def __init__(self, least=12):
        self.least = least

    @branching
    def pixels(self, sample):
        image = ops.resize(sample.image, size=(16, 16))
        return ops.to_float(image) if sample.box[2] - sample.box[0] > self.least else image

    def define(self, sample):
        vector = sample.vector
        made = {"image": self.pixels(sample)}
        if len(sample.boxes) > 0 and sample.image.shape[0] > 22:
            kind = vector[-1] * 2 + 1
        else:
            kind = -1 if len(sample.tokens) == 0 else sample.tokens.sum()
            if (vector > 5).any() or (vector < -8).any():
                kind = 0.5
        return made | {
            "kind": kind,
            "wide": sample.box[2] - sample.box[0] > 0 and sample.box[2] - sample.box[0] < 20,
            "vector": weighed(vector, sample.factor),
            "scaled": ops.unlinked((sample.box * 0.5 + 1) / sample.factor),
            "mask": (vector > 2) & (vector < vector.max()),
            "first": False if len(sample.tokens) == 0 else 10 < sample.tokens[0] < 40,
            "last": len(sample.tokens) == 0 or sample.tokens[-1] > 25 or sample.tokens[0] == 3,
            "tokens": outputs.ragged(sample.tokens % 7 - 1),
            "padded": outputs.pad(sample.tokens * 2, fill=-1),
        }


def expected(n):
    """The same in plain Python and NumPy."""
    fields = sample_of(n)
    box, vector, tokens = fields["box"], fields["vector"], fields["tokens"]
    factor = float(np.float32(fields["factor"]))
    if n % 3 > 0 and 20 + n > 22:
        kind = int(vector[-1]) * 2 + 1
    elif (vector > 5).any() or not (vector >= -8).all():
        kind = 0.5
    else:
        kind = -1 if len(tokens) == 0 else int(tokens.sum())
    with np.errstate(all="ignore"):
        scaled = (box * 0.5 + 1) / factor
    return {
        "kind": np.float64(kind),
        "wide": np.bool_(0 < box[2] - box[0] < 20),
        "vector": np.float64(vector * factor if vector.sum() < 0 else vector),
        "scaled": scaled,
        "first": np.bool_(len(tokens) > 0 and 10 < tokens[0] < 40),
        "last": np.bool_(not len(tokens) or tokens[-1] > 25 or tokens[0] == 3),
        "mask": (vector > 2) & (vector < vector.max()),
    }


@pytest.mark.parametrize("made", [as_function, AsClass()], ids=["function", "class"])
def test_each_row_is_computed_as_in_numpy(made, daemon):
    seen = set()
    with Loader(daemon.address, pipeline=made, **STREAM) as loader:
        for batch in loader:
            assert batch.image.dtype == np.float32
            for row, n in enumerate(batch.index.tolist()):
                for name, wanted in expected(n).items():
                    got = batch[name][row]
                    assert (got.dtype, got.tobytes()) == (wanted.dtype, wanted.tobytes()), name
                tokens = sample_of(n)["tokens"]
                assert batch.tokens[row].tolist() == (tokens % 7 - 1).tolist()
                assert batch.padded[row, : len(tokens)].tolist() == (tokens * 2).tolist()
                assert (batch.padded[row, len(tokens) :] == -1).all()
                assert batch.image[row].max() <= 1
                seen.add(n)
    assert seen == set(range(ROWS))


@pipeline
def by_place(sample):
    return {"at": sample.vector[sample.place], "label": sample.label}


def test_an_index_out_of_bounds_is_a_bad_sample(daemon):
    """Places are 0 to 6, and the vector has five elements."""
    bad = [n for n in range(ROWS) if n % 7 > 4]
    with (
        Loader(daemon.address, pipeline=by_place, **STREAM) as loader,
        pytest.raises(SampleError, match=r"sample 5: .*test_conditions.py:\d+: an element of field "
                      r"'vector', .*: index 5 is out of bounds: that side has 5 elements"),
    ):  # fmt: skip
        list(loader)
    with Loader(daemon.address, pipeline=by_place, on_error="replace", **STREAM) as loader:
        for batch in loader:
            for at, index, wanted in zip(batch.at, batch.index, batch.requested, strict=True):
                assert (index != wanted) == (wanted in bad)
                assert at == sample_of(int(index))["vector"][int(index) % 7]


@pytest.mark.parametrize(
    ("define", "said"),
    [
        (
            lambda s: s.image * 2,
            r"\*: image uint8.*: images and masks are not operands.*ops.python",
        ),
        (lambda s: s.vector[5], "index 5 is out of bounds: side 0 has 5 elements"),
        (lambda s: s.vector + s.box, r"\+ of field 'vector' and field 'box': .* different shapes"),
        (lambda s: s.box // 2, "// and % take integers"),
    ],
)
def test_what_cannot_be_computed_names_the_line(define, said, daemon):
    @pipeline
    def wrong(sample):
        return {"x": define(sample)}

    with (
        pytest.raises(BuildError, match=rf"test_conditions.py:\d+: .*{said}"),
        Loader(daemon.address, pipeline=wrong, **STREAM) as loader,
    ):
        next(iter(loader))


def test_a_constant_meets_float32_as_in_numpy(daemon):
    """0.7 equals a stored 0.7, in a field, an element and a statistic."""
    tenths = [0.1 * k for k in range(ROWS)]

    @pipeline
    def compared(sample):
        one = ops.cast(sample.box * 0 + sample.factor, dtype="float32")
        same = {f"equal{k}": sample.factor == tenth for k, tenth in enumerate(tenths)}
        element = {f"element{k}": tenth <= one[0] for k, tenth in enumerate(tenths)}
        return {**same, **element, **{f"most{k}": one.max() >= t for k, t in enumerate(tenths)}}

    stored = np.float32(tenths)
    with Loader(daemon.address, pipeline=compared, **STREAM | {"batch_size": ROWS}) as loader:
        (batch,) = loader
        for k, tenth in enumerate(tenths):
            assert np.array_equal(batch[f"equal{k}"], stored == tenth)
            assert batch[f"equal{k}"].sum() == 1
            assert np.array_equal(batch[f"element{k}"], stored >= tenth)
            assert np.array_equal(batch[f"most{k}"], stored >= tenth)
