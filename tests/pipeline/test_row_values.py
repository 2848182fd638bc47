"""Parameters that are values of each row: what a Loader delivers, what is a bad sample or refused.

The oracles are Pillow and NumPy, which get the same numbers row by row.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import call
from daemons import Daemon, serving
from PIL import Image

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.ops.bases.row_parameters import row_value
from stoker.ops.contract.parameters import rules_of
from stoker.ops.contract.registry import registered
from stoker.ops.contract.states import State
from stoker.pipeline import outputs, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.decoded_boxes import windowed
from stoker.pipeline.planning.planner import bind, shorten
from stoker.protocol.errors import BuildError, SampleError, UsageError
from stoker.rng.row import Row
from stoker.server.rows.field_states import field_states
from stoker.server.rows.sample_reader import SampleReader

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
ROWS, SIDE, BAD = 16, 40, {3: np.nan, 7: np.inf, 9: 361.0}
RNG = np.random.default_rng(2)
BASE = np.kron(RNG.integers(0, 256, (5, 5, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
ANGLES = RNG.uniform(-180, 180, ROWS).astype(np.float32)
TOPS, LEFTS = RNG.integers(-4, SIDE - 4, (2, ROWS))
FACTORS = RNG.uniform(0.2, 2, ROWS)


def turned(image: np.ndarray, degrees: float) -> np.ndarray:
    return np.asarray(Image.fromarray(image).rotate(degrees, Image.Resampling.NEAREST))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images that were turned by their angle; some have impossible angles, one has no shift."""
    fields = [
        schema.image(encoding="raw"),
        schema.mask(encoding="raw"),
        schema.scalar("angle", "float32"),
        schema.scalar("spoilt", "float64"),
        schema.scalar("top", "int32"),
        schema.scalar("left", "int64"),
        schema.scalar("factor", "float64"),
        schema.optional(schema.scalar("shift", "int64"), fill=0),
        schema.scalar("name", "uint64"),
        schema.label(),
    ]
    rows = [
        {
            "image": turned(BASE, -angle),
            "mask": turned(BASE, -angle)[..., 0],
            "angle": angle,
            "spoilt": BAD.get(number, 0.0),
            "top": TOPS[number],
            "left": LEFTS[number],
            "factor": FACTORS[number],
            "shift": None if number == 5 else 2,
            "name": number,
            "label": number % 2,
        }
        for number, angle in enumerate(ANGLES)
    ]
    folder = tmp_path_factory.mktemp("row_values") / "packed"
    write(folder, fields, rows)
    return folder


@pytest.fixture(scope="module")
def daemon(session_folder: Path, dataset: Path) -> Iterator[Daemon]:
    folder = session_folder / "row_values"
    folder.mkdir()
    with serving(folder, f"--dataset=turned={dataset}", "--workers=1") as running:
        yield running
    shutil.rmtree(folder)


def batches(daemon: Daemon, made: object, **more: object) -> Iterator[dict]:
    stream = {"dataset": "turned", "pipeline": made, "batch_size": 4, "device": "numpy"}
    with Loader(daemon.address, **stream | {"seed": 5} | more) as loader:
        for batch in loader:
            yield batch, loader


def redder(image, shift, stream):
    none = (0, 0)
    return ops.rgb_shift(
        image, red_range=shift, green_range=none, blue_range=none, p=1.0, stream=stream
    )


@pipeline
def upright(sample, ctx):
    """Each image is turned back by its own angle, then cut at its own place."""
    image, mask = ops.rotate(
        sample.image, sample.mask, degrees=sample.angle, interpolation="nearest"
    )
    cut = ops.crop(sample.image, size=(9, 8), top=sample.top, left=sample.left + 1 - 1, fill=7)
    strength = ctx.uniform(-99, 99, stream="strength")
    flip = ops.HorizontalFlip(p=sample.factor / 2)
    flipped, label = flip(sample.image), sample.label
    if flip.applied:
        label = 1 - label
    return {
        "image": image,
        "mask": mask,
        "angle": ops.drawn(image, "angle"),
        "cut": cut,
        "redder": redder(sample.image, 100 * sample.factor, "stored"),
        "drawn": redder(sample.image, strength, "other"),
        "strength": strength,
        "flipped": flipped,
        "label": label,
    }


def padded_cut(image: np.ndarray, top: int, left: int) -> np.ndarray:
    room = np.pad(image, ((8, 16), (8, 16), (0, 0)), constant_values=7)
    return room[8 + top : 17 + top, 8 + left : 16 + left]


def test_a_loader_delivers_what_pillow_makes_of_the_numbers_of_each_row(daemon, dataset):
    seen, mirrored = set(), set()
    for batch, loader in batches(daemon, upright):
        for row, number in enumerate(batch.index):
            stored = turned(BASE, -ANGLES[number])
            expected = turned(stored, ANGLES[number])
            assert (batch["image"][row] != expected).any(-1).mean() < 0.05
            assert (batch["mask"][row] != expected[..., 0]).mean() < 0.05
            assert batch["angle"][row] == ANGLES[number]
            place = TOPS[number], LEFTS[number]
            assert np.array_equal(batch["cut"][row], padded_cut(stored, *place))
            for name, shift in (
                ("redder", 100 * FACTORS[number]),
                ("drawn", batch["strength"][row]),
            ):
                expected = stored.astype(int) + np.array([int(np.floor(shift + 0.5)), 0, 0])
                assert np.array_equal(batch[name][row], np.clip(expected, 0, 255))
            is_mirrored = np.array_equal(batch["flipped"][row], stored[:, ::-1])
            assert batch["label"][row] == (number % 2 != is_mirrored)
            mirrored.add(is_mirrored)
            seen.add(int(number))
        found = loader.replay_row(batch, 1)
        number = batch.index[1]
        settings = {step.op: step.settings for step in found.steps}
        assert settings["rotate"]["degrees"] == ANGLES[number]
        assert settings["crop"]["top"] == TOPS[number]
        assert found.output("image").tobytes() == batch["image"][1].tobytes()
    assert (seen, mirrored) == (set(range(ROWS)), {False, True})


def test_frozen_draws_give_every_row_one_parameter(daemon):
    found = [batch["strength"] for batch, _ in batches(daemon, upright, freeze={"strength": 3})]
    assert len(np.unique(found)) == 1


@pipeline
def spoilt(sample):
    return {"image": ops.rotate(sample.image, degrees=sample.spoilt), "label": sample.label}


def test_an_impossible_number_is_a_bad_sample_by_name(daemon):
    with pytest.raises(SampleError) as caught:
        list(batches(daemon, spoilt, shuffle=False))
    said = caught.value.message
    assert all(
        part in said
        for part in (
            "sample 3:", "test_row_values.py:", "rotate: parameter 'degrees' is field 'spoilt'",
            "expected a number from -360 to 360, got nan",
        )
    ), said  # fmt: skip
    assert (caught.value.details["id"], caught.value.details["field"]) == (3, "spoilt")


@pytest.mark.parametrize("policy", ["replace", "mask"])
def test_bad_numbers_are_replaced_or_masked(daemon, policy):
    good, requested = [], []
    for batch, _ in batches(daemon, spoilt, on_error=policy, shuffle=False):
        good += batch.index[batch.valid].tolist()
        requested += batch.requested.tolist()
    assert requested == list(range(ROWS))
    assert set(good).isdisjoint(BAD)
    assert len(good) == (ROWS if policy == "replace" else ROWS - len(BAD))


def nearest(number):
    return np.rint(number).astype(np.int32)


@pipeline
def rounded(sample):
    top = ops.python(nearest, 10 * sample.factor, dtype="int32", randomness="none")
    return {"image": ops.crop(sample.image, size=8, top=top, left=0)}


@pipeline
def not_rounded(sample):
    return {"image": ops.crop(sample.image, size=8, top=10 * sample.factor, left=0)}


def test_a_float_is_rounded_by_a_function_that_the_error_names(dataset):
    stream = {"batch_size": 4, "device": "numpy", "workers": 1}
    with pytest.raises(BuildError, match=r"expected an integer.*ops\.python\(function, value, dty"):
        next(iter(Loader(dataset, pipeline=not_rounded, **stream)))
    with Loader(dataset, pipeline=rounded, **stream) as loader:
        for batch in loader:
            for number, image in zip(batch.index, batch["image"], strict=True):
                top = round(10 * FACTORS[number])
                assert np.array_equal(image, turned(BASE, -ANGLES[number])[top : top + 8, :8])


@pipeline
def optional(sample):
    return {"image": ops.crop(sample.image, size=8, top=2 * sample.shift, left=0)}


@pipeline
def optional_where_present(sample):
    image = ops.center_crop(sample.image, size=8)
    if sample.shift_present:
        image = ops.crop(sample.image, size=8, top=2 * sample.shift, left=0)
    return {"image": image}


@pipeline
def optional_by_label(sample):
    top = 2 * sample.shift
    if sample.label == 1:
        top = 3 * sample.shift
    return {"image": ops.crop(sample.image, size=8, top=top, left=0)}


@pipeline
def optional_cast(sample):
    return {"image": ops.rotate(sample.image, degrees=ops.cast(sample.shift, dtype="float64"))}


@pipeline
def optional_with_default(sample):
    top = 2 * sample.shift if sample.shift_present else 16
    return {"image": ops.crop(sample.image, size=8, top=top, left=0)}


@pytest.mark.parametrize("made", [optional, optional_by_label, optional_cast])
def test_a_sample_without_the_number_is_bad(daemon, made):
    with pytest.raises(SampleError) as caught:
        list(batches(daemon, made, shuffle=False))
    assert "sample 5:" in caught.value.message
    assert "the sample has no 'shift'" in caught.value.message
    assert "if sample.shift_present:" in caught.value.message


@pytest.mark.parametrize(
    ("made", "left_of_five"), [(optional_where_present, 16), (optional_with_default, 0)]
)
def test_a_sample_without_the_number_is_good_where_it_is_not_asked(daemon, made, left_of_five):
    rows = [
        (number, image)
        for batch, _ in batches(daemon, made)
        for number, image in zip(batch.index, batch["image"], strict=True)
    ]
    for number, image in rows:
        stored = turned(BASE, -ANGLES[number])
        top, left = (16, left_of_five) if number == 5 else (4, 0)
        assert np.array_equal(image, stored[top : top + 8, left : left + 8])


def test_explain_names_the_parameters_of_rows(dataset):
    code, text, error = call(
        "explain", "test_row_values:upright", dataset, "--python-path", Path(__file__).parent
    )
    assert code == 0, error
    assert "d0.degrees = v" in text
    assert "in each row a number from -360 to 360" in text


def run(engine, number, inputs):
    made = [np.zeros(output.shape, output.dtype) for output in engine.plan.outputs]
    engine.run(Row(5, number, 0), inputs, made)
    return [one.tobytes() for one in made]


def test_all_engines_agree_and_constants_give_the_same(dataset):
    @pipeline
    def several(sample):
        image, small = ops.rotate(
            sample.image,
            ops.resize(sample.mask, size=(20, 20)),
            degrees=sample.angle,
            relative=True,
        )
        if sample.top > 3:
            image = ops.rgb_shift(image, red_range=99 * sample.factor, p=sample.label)
        return {"image": image, "small": ops.unlinked(small)}

    with open_dataset(dataset) as opened:
        states = field_states(opened)
        plan = bind(several.graph(), states)
        assert shorten(plan) is plan
        assert bind(Graph.from_data(several.graph().to_data()), states).pipeline_id == (
            plan.pipeline_id
        )
        engines = [Interpreter(plan), compile_plan(plan), Guarded(plan)]
        for number in range(ROWS):
            inputs = SampleReader(opened, plan.fields).read(number)
            results = [run(engine, number, inputs) for engine in engines]
            assert results[0] == results[1] == results[2]

            @pipeline
            def constant(sample, angle=float(ANGLES[number])):
                image, small = ops.rotate(
                    sample.image,
                    ops.resize(sample.mask, size=(20, 20)),
                    degrees=(angle, angle),
                    relative=True,
                )
                return {"image": image, "small": ops.unlinked(small)}

            if TOPS[number] <= 3:
                fixed = bind(constant.graph(), states)
                inputs = SampleReader(opened, fixed.fields).read(number)
                assert run(Interpreter(fixed), number, inputs) == results[0][:2]


@pipeline
def as_bright_as_it_is(sample):
    return {"image": ops.rotate(sample.image, degrees=sample.image.mean())}


def test_decisions_are_known_without_pixels_where_the_parameters_are(dataset):
    with open_dataset(dataset) as opened:
        plan = bind(upright.graph(), field_states(opened))
        made = Interpreter(plan)
        for number in (0, 4):
            inputs = SampleReader(opened, plan.fields).read(number)
            run(made, number, inputs)
            scalars = {
                name: value[()]
                for name, value in zip(plan.fields, inputs, strict=True)
                if not np.ndim(value)
            }
            assert decide(plan, Row(5, number, 0), {}, scalars) == made.records()
        plan = bind(as_bright_as_it_is.graph(), field_states(opened))
        with pytest.raises(UsageError, match="parameter reads a number computed from pixels"):
            decide(plan, Row(5, 0, 0), {}, {})


def test_an_image_is_decoded_whole_where_a_row_says_what_is_cut(dataset):
    with open_dataset(dataset) as opened:
        assert windowed(bind(optional.graph(), field_states(opened))) == {}


STATES = {
    "image": State.fixed("image", "uint8", (SIDE, SIDE, 3)),
    "mask": State.fixed("mask", "uint8", (SIDE, SIDE)),
    "wide": State.fixed("image", "uint8", (SIDE, SIDE + 8, 3)),
    "free": State("image", "uint8", (None, None, 3), (SIDE, SIDE, 3)),
    "number": State.fixed("scalar", "float32", ()),
    "other": State.fixed("scalar", "float64", ()),
    "whole": State.fixed("scalar", "int16", ()),
    "large": State.fixed("scalar", "uint64", ()),
    "vector": State.fixed("array", "float32", (3,)),
}
REFUSED = [
    (lambda s: ops.crop(s.image, size=s.whole, top=0, left=0), "'size' differs", "memory is laid"),
    (lambda s: ops.rotate(s.image, degrees=(s.number, 9)), "'degrees' differs", "both ends"),
    (lambda s: ops.mixup(s.image, alpha=s.number), "'alpha' differs", "mixes finished rows"),
    (lambda s: ops.crop(s.image, size=9, top=s.number, left=0), "an integer", "scalar float32"),
    (lambda s: ops.crop(s.image, size=9, top=s.large, left=0), "'top'", "uint64"),
    (lambda s: ops.rotate(s.image, degrees=s.vector), "'degrees'", "array float32[3]"),
    (lambda s: ops.rotate(s.image, degrees=s.image), "'degrees'", "image uint8"),
    (lambda s: ops.rotate(s.image, degrees=s.number, expand=True), "'degrees' must", "the size"),
    (lambda s: ops.transpose(s.wide, p=s.number), "'p' must be a constant", "decides the size"),
    (
        lambda s: outputs.pad(ops.transpose(s.free, p=s.number)),
        "padded",
        "whose p each sample gives",
    ),
]


@pytest.mark.parametrize(("made", "what", "why"), REFUSED)
def test_what_cannot_follow_a_row_is_refused_with_the_reason(made, what, why):
    with pytest.raises(BuildError) as caught:
        bind(pipeline(lambda sample: {"out": made(sample)}).graph(), STATES)
    assert "test_row_values.py:" in caught.value.message
    assert what in caught.value.message
    assert why in caught.value.message


def test_two_calls_with_one_number_are_one_move():
    """So a mask that followed another number does not fit its image."""

    def parted(sample, other):
        image = ops.crop(sample.image, size=9, top=sample.whole, left=0)
        mask = ops.crop(sample.mask, size=9, top=other(sample), left=0)
        return {"image": image, "mask": mask}

    assert bind(pipeline(lambda s: parted(s, lambda s: s.whole)).graph(), STATES)
    for other in (lambda s: s.whole + 1, lambda s: 0, lambda s: 5):
        with pytest.raises(BuildError, match="the mask would not fit the image"):
            bind(pipeline(lambda s, other=other: parted(s, other)).graph(), STATES)


TAKEN = [
    (name, parameter)
    for name, cls in {**registered()}.items()
    for parameter in rules_of(cls)
    if row_value(cls, parameter) is not None and not cls.by_user
]
SMALL = np.random.default_rng(8).integers(0, 256, (24, 24, 3), np.uint8)


def test_every_parameter_takes_a_number_as_its_constant():
    """The number of a row does what a constant does: for a range, as both of its ends."""
    refused = {}
    for name, parameter in TAKEN:
        cls, rule = registered()[name], row_value(registered()[name], parameter)
        given = dict(next(iter(cls.examples), {}))

        def made_with(number=None, cls=cls, given=given, parameter=parameter):
            def define(sample):
                one = sample.number if number is None else number
                return {"x": cls(**given | {parameter: one})(sample.image)}

            return pipeline(define).graph()

        states = {
            "image": State.fixed("image", "uint8", SMALL.shape),
            "number": State.fixed("scalar", "int64" if rule.whole else "float64", ()),
        }
        try:
            bind(made_with(rule.given(rule.middle)), states)
        except BuildError:
            continue  # it needs a mask or boxes
        try:
            engine = Interpreter(bind(made_with(), states))
        except BuildError as error:
            refused[name, parameter] = error.message
            continue
        for part in (0.13, 1.0):
            number = min(rule.low + part * (rule.high - rule.low), 64.0)
            number = int(number) if rule.whole else float(number)
            fixed = Interpreter(bind(made_with(rule.given(number)), {"image": states["image"]}))
            inputs = {"image": SMALL, "number": np.array(number)}
            made = run(engine, 1, [inputs[field] for field in engine.plan.fields])
            assert made == run(fixed, 1, [SMALL]), (name, parameter, number)
    assert all("must be a constant" in message for message in refused.values()), refused
    assert refused.keys() == {("resize_long", "size"), ("rotate_expand", "degrees")}
