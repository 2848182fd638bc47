"""A Python function of several values: one call a row, one decision, and what is refused."""

import numpy as np
import pytest

from stoker import ops
from stoker.ops.contract.states import State, StateError
from stoker.ops.custom.foreign import generator
from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.replay_row import replay
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, SampleError
from stoker.protocol.item_fields import ItemField
from stoker.rng.streams import make_key, stream_key

ROWS = [Row(2**64 - 1 if k % 3 else 5, 10**6 * k + 3, k // 4, k % 2, k % 5) for k in range(12)]
VARIED = {
    "image": State("image", "uint8", (None, None, 3), (64, 64, 3)),
    "mask": State("mask", "uint8", (None, None), (64, 64)),
    "weights": State.fixed("array", "float32", (4,)),
}


@pytest.fixture(scope="module")
def functions(user_folder):
    import custom_functions  # noqa: PLC0415

    return custom_functions


def values(number, height=20, width=31):
    noise = np.random.default_rng(number)
    return {
        "image": noise.integers(0, 256, (height + number, width, 3), dtype=np.uint8),
        "mask": noise.integers(0, 9, (height + number, width), dtype=np.uint8),
        "weights": noise.random(4, np.float32),
    }


def run(engine, row, fields):
    outputs = [np.zeros(o.shape, o.dtype) for o in engine.plan.outputs]
    engine.run(row, [fields[name] for name in engine.plan.fields], outputs)
    return dict(zip((o.name for o in engine.plan.outputs), outputs, strict=True))


@pytest.fixture(scope="module")
def flipped(functions):
    """Between built-in ops and inside of a branch."""

    @pipeline
    def train(sample):
        image, mask = ops.resize_short(sample.image, sample.mask, size=24, max_size=64)
        if image.height > 0:
            image, mask = ops.python(functions.flip_both, image, mask, together=True)
        image, mask = ops.center_crop(image, mask, size=(20, 30))
        return {"image": image, "mask": mask}

    return bind(train.graph(), VARIED)


@pytest.mark.slow
def test_every_engine_calls_it_once_a_row_with_one_decision(functions, flipped):
    engines = [Interpreter(flipped), compile_plan(flipped), Guarded(flipped)]
    assert flipped.streams == ("flip_both",)
    sides = set()
    for number, row in enumerate(ROWS):
        fields = values(number)
        found = []
        for engine in engines:
            functions.CALLS.clear()
            found.append(run(engine, row, fields))
            assert len(functions.CALLS) == 1
        for other in found[1:]:
            assert all(np.array_equal(other[name], found[0][name]) for name in other)
        rng = generator(make_key(row.seed, stream_key("flip_both"), row.id, row.epoch, *row[3:5]))
        rng.integers(1, 60)
        sides.add(bool(rng.random() < 0.5))
    assert sides == {False, True}


def test_it_computes_what_it_computes_alone(functions):
    fixed = {"image": State.fixed("image", "uint8", (20, 31, 3))}
    fixed["mask"] = State.fixed("mask", "uint8", (20, 31))

    @pipeline
    def train(sample):
        image, mask = ops.python(functions.flip_both, sample.image, sample.mask, together=True)
        return {"image": image, "mask": mask}

    plan = bind(train.graph(), fixed)
    for row in ROWS:
        fields = values(0)
        rng = generator(make_key(row.seed, stream_key("flip_both"), row.id, row.epoch, *row[3:5]))
        image, mask = functions.flip_both(fields["image"], fields["mask"], rng)
        got = run(Interpreter(plan), row, fields)
        assert np.array_equal(got["image"], image)
        assert np.array_equal(got["mask"], mask)
        steps = replay(plan, row, [fields[name] for name in plan.fields]).steps
        assert [step.stream for step in steps] == ["flip_both", "flip_both"]
        assert np.array_equal(steps[1].values[0].array, mask)


@pytest.mark.slow
def test_results_of_several_kinds_and_forms(functions):
    """Each is made of all; an image of another dtype and channels, an array of weights."""

    @pipeline
    def train(sample):
        image, mask = ops.resize(sample.image, sample.mask, size=(9, 12))
        bright, dark, weights = ops.python(
            functions.where_bright, image, mask, sample.weights,
            together=True, randomness="none", channels=1, dtype="float32",
        )  # fmt: skip
        again = ops.python(functions.negative, image, randomness="none")
        only = ops.python(functions.forgets_nothing, again, mask, together=True, randomness="none")
        return {"bright": bright, "dark": dark, "weights": weights, "only": only[1]}

    plan = bind(train.graph(), VARIED)
    for number, row in enumerate(ROWS[:6]):
        fields = values(number)
        plain, fast = (
            run(engine, row, fields) for engine in (Interpreter(plan), compile_plan(plan))
        )
        assert all(np.array_equal(plain[name], fast[name]) for name in plain)
        small = pipeline(
            lambda s: dict(zip("im", ops.resize(s.image, s.mask, size=(9, 12)), strict=True))
        )
        made = small({name: fields[name] for name in ("image", "mask")})
        expected = functions.where_bright(made["i"], made["m"], fields["weights"])
        for name, array in zip(("bright", "dark", "weights"), expected, strict=True):
            assert np.array_equal(plain[name], array)
        assert np.array_equal(plain["only"], made["m"])


def test_a_failure_is_the_samples(functions):
    @pipeline
    def train(sample):
        image, mask = ops.python(
            functions.fails_on_dark, sample.image, sample.mask, together=True, randomness="none"
        )
        image, mask = ops.resize(image, mask, size=(8, 8))
        return {"image": image, "mask": mask}

    plan = bind(train.graph(), VARIED)
    fields = values(1)
    for engine in (Interpreter(plan), compile_plan(plan)):
        run(engine, ROWS[0], fields)
        with pytest.raises(SampleError, match=r"fails_on_dark raised ValueError: too dark"):
            run(engine, ROWS[0], {**fields, "image": fields["image"] // 99})
        run(engine, ROWS[0], fields)


@pytest.mark.parametrize(
    ("name", "fields", "randomness", "said"),
    [
        ("only_one", ("image", "mask"), "generator", "gave ndarray, expected a tuple of 2 arrays"),
        ("too_few", ("image", "mask", "weights"), "none", "gave 2 of them, expected a tuple of 3"),
        ("forgets", ("image", "mask"), "none", "it gave two results for one row"),
        ("flip_both", ("image",), "generator", "together=True takes 2 to 8 values, got 1"),
        ("where_bright", ("weights", "image", "mask"), "none", "expected an image or mask first"),
        ("flip_both", ("image", "boxes"), "generator", "has no rule for boxes; it has rules for"),
        ("where_bright", ("image",) * 9, "none", "together=True takes 2 to 8 values, got 9"),
        ("where_bright", ("image", "mask", "weights"), "none", "gave float32 of shape"),
    ],
)
def test_impossible_calls_are_refused_by_line(functions, name, fields, randomness, said):
    @pipeline
    def train(sample):
        given = [sample[field] for field in fields]
        made = ops.python(getattr(functions, name), *given, together=True, randomness=randomness)
        return {"value": made[0]}

    states = {
        **VARIED,
        "boxes": State.ragged("boxes", (ItemField("xyxy", "float32", 4),), 5, "image"),
    }
    with pytest.raises(BuildError, match=said) as caught:
        bind(train.graph(), states)
    assert len(fields) in (1, 9) or "test_python_together.py:" in caught.value.message


def test_a_graph_of_others_is_refused_too(flipped):
    (op, other) = (decision.op for decision in flipped.decisions if hasattr(decision.op, "result"))
    assert (op.result, other.result) == (0, 1)
    with pytest.raises(StateError, match="flip_both: expected 2 to 8 values together, got 1"):
        op.declare((VARIED["image"],))
