"""`one_of`, `some_of`, `random_apply` and draws of ctx: what they choose, name, and refuse."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from stoker import ops
from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import Chance, Integer, OneOf, SomeOf, Uniform, WeightedSomeOf, make
from stoker.ops.contract.registry import choices
from stoker.pipeline import Row, one_of, pipeline, random_apply, scope, some_of
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.protocol.errors import BuildError
from stoker.rng.streams import machine_key, make_key

EXAMPLES = [
    Chance(0.3),
    Uniform(-2.0, 3.5),
    Integer(-3, 4),
    OneOf((1, 0, 2.5, 1)),
    SomeOf(5, 1, 3),
    SomeOf(62, 0, 62),
    WeightedSomeOf((2, 0, 1.5, 4), 0, 3),
    WeightedSomeOf((1e-3,) * 61 + (1e6,), 0, 62),
]


def record_of(op, key, *, arithmetic=PLAIN):
    """Draw; returns the one number of the record."""
    params, record = np.zeros(1, op.parameters), np.zeros(1, op.record)
    params[0] = op.params()[()]
    draw = compiled(type(op).draw) if arithmetic.is_compiled else type(op).draw
    draw(machine_key(key) if arithmetic.is_compiled else key, params[0], 0, 0, record[0])
    return record[0][0].item()


def test_every_choice_is_an_example():
    assert {type(op) for op in EXAMPLES} == set(choices().values())


@pytest.mark.parametrize("op", EXAMPLES, ids=str)
def test_machine_code_draws_the_same(op):
    for number in range(200):
        key = make_key(7, 99, number, 2)
        assert record_of(op, key) == record_of(op, key, arithmetic=COMPILED)
    assert make(op.name, op.params_data()) == op


def test_choices_are_as_likely_as_said():
    keys = [make_key(1, 5, number, 0) for number in range(6000)]
    weights = np.array([1, 0, 2.5, 1])
    drawn = Counter(record_of(OneOf(tuple(weights)), key) for key in keys)
    assert drawn[1] == 0
    kept = [0, 2, 3]
    expected = weights[kept] / weights.sum() * len(keys)
    assert chisquare([drawn[i] for i in kept], expected).pvalue > 1e-4

    sets = Counter(record_of(SomeOf(5, 2, 3), key) for key in keys)
    every = [
        sum(1 << i for i in chosen)
        for size in (2, 3)
        for chosen in itertools.combinations(range(5), size)
    ]
    assert set(sets) == set(every)
    assert chisquare([sets[s] for s in every]).pvalue > 1e-4

    weights = (1.0, 0.0, 2.0, 5.0)
    pairs = Counter(record_of(WeightedSomeOf(weights, 2, 2), key) for key in keys)
    chances = {
        (1 << i) + (1 << j): weights[i] / 8 * weights[j] / (8 - weights[i])
        + weights[j] / 8 * weights[i] / (8 - weights[j])
        for i, j in itertools.combinations((0, 2, 3), 2)
    }
    assert set(pairs) == set(chances)
    expected = [len(keys) * chance for chance in chances.values()]
    assert chisquare([pairs[pair] for pair in chances], expected).pvalue > 1e-4

    numbers = Counter(record_of(Integer(-3, 4), key) for key in keys)
    assert set(numbers) == set(range(-3, 5))
    assert chisquare(list(numbers.values())).pvalue > 1e-4
    applied = sum(record_of(Chance(0.3), key) for key in keys)
    assert chisquare([applied, len(keys) - applied], [1800, 4200]).pvalue > 1e-4


@pytest.mark.parametrize(
    ("make_op", "message"),
    [
        (lambda: Chance(1.5), r"chance: expected p to be a number from 0 to 1, got 1.5"),
        (lambda: Uniform(2, 1), r"uniform: expected \(low, high\) to be .*low <= high"),
        (lambda: Integer(3, 2), r"integer: expected last to be an integer from 3 "),
        (lambda: OneOf(()), r"one_of: expected weights to be 1 to 62 numbers"),
        (lambda: OneOf((1, -1)), r"one_of: expected weights to be 1 to 62 numbers"),
        (lambda: OneOf((0, 0)), r"one_of: expected weights to be not all 0"),
        (
            lambda: WeightedSomeOf((1, -1), 0, 1),
            r"weighted_some_of: expected weights to be 1 to 62",
        ),
        (
            lambda: WeightedSomeOf((1, 0), 0, 2),
            r"most to be an integer from 0 to 1, got 2",
        ),
        (lambda: WeightedSomeOf((1, 0), 2, 2), r"expected fewest to be an integer from 0 to 1"),
        (lambda: SomeOf(3, 2, 4), r"some_of: expected most to be an integer from 2 to 3, got 4"),
    ],
)
def test_parameters_of_choices_are_checked(make_op, message):
    with pytest.raises(BuildError, match=message):
        make_op()


@pytest.fixture(scope="module")
def fields(photo):
    return {"image": photo[0][:64, :80].copy(), "mask": photo[1][:64, :80].copy()}


def run(pipe, fields, ids=range(40), **options):
    """Return (outputs, stream -> record) of each id; only what was drawn is listed."""
    plan = pipe.plan_for(fields)
    engine = Interpreter(plan, **options)
    found = []
    for number in ids:
        outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
        engine.run(Row(3, number, 0), [fields[name] for name in plan.fields], outputs)
        named = {o.name: array for o, array in zip(plan.outputs, outputs, strict=True)}
        found.append((named, {entry["stream"]: entry["record"] for entry in engine.records()}))
    return found


def test_one_of_runs_what_it_chose_on_all_values(fields, both):
    def upside_down(image, mask):
        return ops.vertical_flip(image, mask, p=1.0)

    @pipeline
    def train(sample):
        image, mask = one_of(
            sample.image,
            sample.mask,
            choices=[
                ops.HorizontalFlip(1.0),
                upside_down,
                None,
                [ops.HorizontalFlip(1.0), upside_down],
            ],
        )
        return {"image": image, "mask": mask}

    made = {
        0: lambda v: v[:, ::-1],
        1: lambda v: v[::-1],
        2: lambda v: v,
        3: lambda v: v[::-1, ::-1],
    }
    seen = set()
    for outputs, drawn in run(train, fields):
        choice = drawn.pop("one_of")["choice"]
        seen.add(choice)
        for name, value in outputs.items():
            assert np.array_equal(value, made[choice](fields[name]))
        streams = {
            0: {"one_of/0/horizontal_flip"},
            1: {"one_of/1/vertical_flip"},
            2: set(),
            3: {"one_of/3/horizontal_flip", "one_of/3/vertical_flip"},
        }
        assert set(drawn) == streams[choice]  # only the taken branch runs
    assert seen == set(made)
    plan = train.plan_for(fields)
    both(plan, [Row(3, k, 0) for k in range(12)], [fields[name] for name in plan.fields])


def test_some_of_and_random_apply(fields, both):
    @pipeline
    def train(sample, ctx):
        image = some_of(
            sample.image,
            choices={
                "a": ops.Invert(1.0),
                "b": ops.HorizontalFlip(1.0),
                "c": ops.VerticalFlip(1.0),
            },
            n=(0, 2),
        )
        image = random_apply(
            image,
            apply=[ops.Rot90(2, 1.0), ops.HorizontalFlip(1.0), ops.VerticalFlip(1.0)],
            p=0.4,
            stream="r",
        )
        return {"image": image, "applied": 1 if ctx.chance(0.5) else 0}

    sizes, applied = Counter(), 0
    for outputs, drawn in run(train, fields):
        chosen = drawn["some_of"]["chosen"]
        expected = fields["image"]
        expected = 255 - expected if chosen & 1 else expected
        expected = expected[:, ::-1] if chosen & 2 else expected
        expected = expected[::-1] if chosen & 4 else expected
        assert np.array_equal(outputs["image"], expected)  # half a turn and two flips: nothing
        assert outputs["applied"] == drawn["chance"]["apply"]
        sizes[chosen.bit_count()] += 1
        applied += drawn["r"]["apply"]
        assert ("r/rot90" in drawn) == bool(drawn["r"]["apply"])
    assert set(sizes) == {0, 1, 2}
    assert 5 < applied < 30
    plan = train.plan_for(fields)
    both(plan, [Row(3, k, 0) for k in range(8)], [fields["image"]])


def test_some_of_by_weight(fields, both):
    """Weights of 0 never come; a compiled draw is that of plain Python."""

    @pipeline
    def train(sample):
        alternatives = [ops.Invert(1.0), ops.HorizontalFlip(1.0), ops.VerticalFlip(1.0)]
        weights = np.array([3, 0, 1])
        return {"image": some_of(sample.image, choices=alternatives, n=(0, 2), weights=weights)}

    seen = Counter(drawn["some_of"]["chosen"] for _, drawn in run(train, fields, range(60)))
    assert set(seen) == {0, 1, 4, 5}
    assert seen[1] > seen[4]
    plan = train.plan_for(fields)
    both(plan, [Row(3, k, 0) for k in range(20)], [fields["image"]])


def test_draws_of_ctx_are_values(fields, both):
    @pipeline
    def train(sample, ctx):
        side = ctx.integer(1, 6)
        bright = ctx.uniform(0.0, 1.0) > 0.5 or side == 3
        image = ops.invert(sample.image, p=1.0) if bright else sample.image
        return {"image": image, "side": side * 2, "bright": bright}

    @pipeline
    def outer(sample):
        return train(sample)

    assert outer.pipeline_id == train.pipeline_id
    for outputs, drawn in run(train, fields):
        bright = drawn["uniform"]["number"] > 0.5 or drawn["integer"]["number"] == 3
        assert outputs["bright"] == bright
        assert outputs["side"] == 2 * drawn["integer"]["number"]
        assert np.array_equal(
            outputs["image"], 255 - fields["image"] if bright else fields["image"]
        )
    both(train.plan_for(fields), [Row(3, k, 0) for k in range(8)], [fields["image"]])


def test_names_by_path_are_stable(fields):
    def drawn(pipe):
        found: dict[str, list] = {}
        for _, records in run(pipe, fields):
            for stream, record in records.items():
                found.setdefault(stream, []).append(record)
        return found

    def turn(image):
        return ops.rotate(image, degrees=30)

    @pipeline
    def base(sample):
        return {"image": one_of(sample.image, choices={"turn": turn, "shift": ops.Affine(0, 0.2)})}

    @pipeline
    def among_others(sample):
        image = ops.color_jitter(sample.image, brightness=0.3)
        image = random_apply(image, apply=ops.Rotate(9), p=0.5)
        image = one_of(image, choices={"turn": turn, "shift": ops.Affine(0, 0.2)})
        with scope("later"):
            image = one_of(image, choices=[ops.Invert(), ops.Solarize()])
        return {"image": image}

    first, second = drawn(base), drawn(among_others)
    assert set(first) == {"one_of", "one_of/turn/rotate", "one_of/shift/affine"}
    assert {name: second[name] for name in first} == first
    assert "later/one_of/0/invert" in second
    frozen = run(
        base, fields, freeze={"one_of": 4, "one_of/turn/rotate": 1, "one_of/shift/affine": 2}
    )
    assert len({outputs["image"].tobytes() for outputs, _ in frozen}) == 1


def test_decided_without_pixels(fields):
    @pipeline
    def train(sample):
        image = ops.center_crop(sample.image, size=32)
        return {"image": some_of(image, choices=[ops.Rotate(30), ops.Invert()], n=1)}

    plan = train.plan_for(fields)
    for number, (_, drawn) in enumerate(run(train, fields, range(10))):
        decided = decide(plan, Row(3, number, 0), {})
        assert {e["stream"]: e["record"] for e in decided} == drawn


def test_what_choices_refuse(toys):
    def refused(message, body):
        with pytest.raises(BuildError, match=message):
            pipeline(lambda sample, ctx: {"image": body(sample, ctx)}).graph()

    line = r"test_choices.py:\d+: "
    refused(
        line + r"one_of: expected fields of a sample, got int",
        lambda s, c: one_of(3, choices=[None]),
    )
    refused(line + "one_of: expected at least one field", lambda s, c: one_of(choices=[None]))
    refused(
        line + r"one_of: .* a list, or a dict of names, .* got list",
        lambda s, c: one_of(s.a, choices=[]),
    )
    refused(line + r"one_of: .* got Invert", lambda s, c: one_of(s.a, choices=ops.Invert()))
    refused(
        line + r"one_of: .* numbers, one for each of 2 choices, got \[1\]",
        lambda s, c: one_of(s.a, choices=[None, None], weights=[1]),
    )
    for none, told in (
        (b"\1\2", r"b'.x01.x02'"),
        ("12", "'12'"),
        ({1, 2}, r"\{1, 2\}"),
        (np.array(3), ""),
    ):
        refused(
            line + rf"one_of: expected weights to be a list or tuple of numbers, .* got {told}",
            lambda s, c, none=none: one_of(s.a, choices=[None, None], weights=none),
        )
    for bad in ((1, -1), (1, math.nan), (1, math.inf), ("1", 2), (True, 1), ([1], [2])):
        refused(
            line + r"one_of: expected weights to be 1 to 62 numbers that are not negative, got ",
            lambda s, c, bad=bad: one_of(s.a, choices=[None, None], weights=bad),
        )
    refused(
        line + r"one_of: expected weights to be not all 0, got \(0.0, 0.0\)",
        lambda s, c: one_of(s.a, choices=[None, None], weights=np.zeros(2)),
    )
    refused(
        line + r"some_of: expected n to be an integer, or \(least, most\), got \(1, 2, 2\)",
        lambda s, c: some_of(s.a, choices=[None, None], n=(1, 2, 2)),
    )
    for bad in (b"\1\2", "1", True, 1.0, None):
        refused(
            line + r"some_of: expected (fewest to be an|\w+ to be numbers or text)",
            lambda s, c, bad=bad: some_of(s.a, choices=[None, None], n=bad),
        )
    for bad in (b"\1", "0.5", math.nan, -0.1, None, True):
        refused(
            line + r"chance: expected p to be (a number from 0 to 1|numbers or text), got ",
            lambda s, c, bad=bad: random_apply(s.a, apply=None, p=bad),
        )
    refused(
        line
        + r"one_of/1: expected an op, a function of 1 values, a list of those or None, got int",
        lambda s, c: one_of(s.a, choices=[None, 3]),
    )
    refused(
        line + r"random_apply: expected 2 values back from <lambda>, got TracedValue",
        lambda s, c: random_apply(s.a, s.b, apply=lambda a, b: a)[0],
    )
    refused(
        line + r"chance: expected p to be a number", lambda s, c: random_apply(s.a, apply=None, p=2)
    )
    refused(
        line + r"one_of: the default stream name 'one_of' is taken by the call at .*test_choices",
        lambda s, c: one_of(one_of(s.a, choices=[None]), choices=[None]),
    )
    refused(
        line + r"ctx has no 'chanse', did you mean 'chance'\?; it has id, epoch, .*chance\(p\)",
        lambda s, c: c.chanse(1),
    )
    refused(
        line + r"center_crop: parameter 'size' differs from sample to sample",
        lambda s, c: ops.center_crop(s.a, size=c.id),
    )
