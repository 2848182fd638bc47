"""Rows of differing shape: both engines against NumPy, sizes without pixels, what is refused."""

import numpy as np
import pytest

from stoker import ops
from stoker.ops.contract.states import State
from stoker.pipeline import outputs, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.size_program import SizeFinder
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.plain_sizes import PlainSizes
from stoker.pipeline.plain.replay_row import replay
from stoker.pipeline.planning.padded_sizes import sizing_of
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.showing.explain_plan import explain
from stoker.protocol.errors import BuildError, SampleError
from stoker.rng.row import Row, row_table

STATES = {
    "image": State("image", "uint8", (None, None, 3), (60, 80, 3)),
    "gray": State("image", "uint8", (None, None, 1), (30, 90, 1)),
    "mask": State("mask", "uint8", (None, None), (60, 80)),
    "words": State("array", "int32", (None,), (9,)),
    "vectors": State("array", "float32", (None, 2), (5, 2)),
    "flags": State("array", "bool", (None,), (6,)),
    "label": State.fixed("label", "int64", ()),
}


@pipeline
def every(sample, ctx):
    """Each form, of each kind; sizes follow from draws, numbers and the place in the stream."""
    image, mask = ops.random_short_side_scale(
        sample.image, sample.mask, sizes=(20, 30), max_size=50
    )
    if sample.label > 0 and ctx.chance(0.6):
        image, mask = ops.random_crop(image, mask, size=(16, 21), padding=2)
    if image.mean() > 120:
        image = ops.invert(image)
    if ctx.step > 1 and image.height < image.width:
        image, mask = ops.transpose(image, mask, p=1.0)
    mixed = sample.gray if ctx.chance(0.5, stream="mixed") else image
    return {
        "image": outputs.pad(image, multiple=8, fill=7),
        "floats": outputs.pad(ops.normalize(image, dtype="float16"), fill=-1.5),
        "mask": outputs.ragged(mask),
        "mixed": outputs.as_list(mixed),
        "words": outputs.pad(sample.words, fill=-100),
        "vectors": outputs.ragged(sample.vectors),
        "flags": outputs.pad(sample.flags, fill=1),
        "label": sample.label,
    }


@pytest.fixture(scope="module")
def plan():
    return bind(every.graph(), STATES)


@pytest.fixture(scope="module")
def engines(plan):
    return [Interpreter(plan), compile_plan(plan)]


def sample_of(number: int, photograph: np.ndarray) -> dict[str, np.ndarray]:
    noise = np.random.default_rng(number)
    height, width = noise.integers(20, 60), noise.integers(20, 80)
    gray = noise.integers(1, 30), noise.integers(1, 90)
    return {
        "image": photograph[:height, :width],
        "gray": np.ascontiguousarray(photograph[: gray[0], : gray[1], :1]),
        "mask": np.ascontiguousarray(photograph[:height, :width, 2]),
        "words": noise.integers(0, 99, noise.integers(0, 10)).astype(np.int32),
        "vectors": noise.random((noise.integers(0, 6), 2)).astype(np.float32),
        "flags": noise.random(noise.integers(0, 7)) < 0.5,
        "label": np.int64(number % 3),
    }


@pytest.fixture(scope="module")
def photograph() -> np.ndarray:
    from skimage import data  # noqa: PLC0415

    return np.ascontiguousarray(data.astronaut())


def computed(engine, row, sample):
    """The outputs of a row by name, in room for the greatest."""
    plan = engine.plan
    arrays = {o.name: np.full(o.shape, 9, o.dtype) for o in plan.outputs}
    engine.run(row, [sample[name] for name in plan.fields], list(arrays.values()))
    return arrays


def test_both_engines_and_numpy_agree(engines, photograph):
    plan = engines[0].plan
    forms = {form.output: form for form in plan.graph.forms}
    seen = set()
    for number in range(30):
        row, sample = Row(3, number, 0, step=number % 4), sample_of(number, photograph)
        arrays, again = (computed(engine, row, sample) for engine in engines)
        whole = {
            v.name: v.array for v in replay(plan, row, [sample[f] for f in plan.fields]).outputs
        }
        for output in plan.outputs:
            name, array = output.name, arrays[output.name]
            assert array.tobytes() == again[name].tobytes(), (number, name)
            if name not in forms:
                continue
            value, form = whole[name], forms[name]
            size = [value.shape[place] for place in output.varies]
            assert arrays[f"{name}.size"].tolist() == size
            expected = np.full(output.shape, form.fill if form.form == "pad" else 9, output.dtype)
            if form.form == "pad":
                expected[tuple(slice(side) for side in value.shape)] = value
            else:
                expected.reshape(-1)[: value.size] = value.reshape(-1)
            assert array.tobytes() == expected.tobytes(), (number, name)
        seen.add(whole["mixed"].shape[2])
    assert seen == {1, 3}, "gray and color meet in a list"


def test_sizes_without_pixels_are_those_of_the_rows(engines, photograph):
    plan = engines[0].plan
    sizing = sizing_of(plan)
    fields = {column: plan.fields[column] for column in (*sizing.measured, *sizing.read)}
    assert sorted(fields.values()) == ["flags", "image", "label", "words"]
    finders = [PlainSizes(plan), SizeFinder(plan)]
    for step in range(4):
        rows = [Row(3, number, 1, view=number % 2, step=step) for number in range(40)]
        samples = [sample_of(row.id, photograph) for row in rows]
        sizes = np.array([[(*s[fields[c]].shape, 1)[:2] for c in sizing.measured] for s in samples])
        numbers = [np.array([s[fields[c]] for s in samples]) for c in sizing.read]
        found = [f.find(rows[0], row_table(rows), sizes, numbers) for f in finders]
        assert np.array_equal(*found)
        for row, sample, mine in zip(rows, samples, found[0], strict=True):
            arrays = computed(engines[0], row, sample)
            for place, one in enumerate(sizing.outputs):
                size = arrays[f"{one.form.output}.size"]
                assert mine[place][: len(size)].tolist() == size.tolist(), (step, row.id)


def test_rows_of_a_padded_batch_lie_in_its_shape(engines, photograph):
    row, sample = Row(3, 5, 0, step=0), sample_of(5, photograph)
    plan = engines[0].plan
    room = computed(engines[0], row, sample)
    height, width = room["image.size"]
    for engine in engines:
        arrays = {o.name: np.full(o.shape, 9, o.dtype) for o in plan.outputs}
        arrays["image"] = np.full((height + 1, width, 3), 9, np.uint8)
        engine.run(row, [sample[name] for name in plan.fields], list(arrays.values()))
        assert np.array_equal(arrays["image"][:height], room["image"][:height, :width])
        assert (arrays["image"][height] == 7).all()
        arrays["image"] = np.full((height, width - 1, 3), 9, np.uint8)
        said = rf"this row's is {height}x{width}, .* have room for {height}x{width - 1}: only a sub"
        with pytest.raises(SampleError, match=said):
            engine.run(row, [sample[name] for name in plan.fields], list(arrays.values()))


def test_in_process_every_row_has_its_own_shape(photograph):
    sample = sample_of(7, photograph)
    made = every(sample, id=7, step=0)
    assert made["words"].tolist() == sample["words"].tolist()
    assert made["image"].shape[:2] == made["floats"].shape[:2] == made["mask"].shape
    assert not any(name.endswith(".size") for name in made)


def test_data_there_and_back():
    graph = every.graph()
    data = graph.to_data()
    assert data["forms"][0] == {"output": "image", "form": "pad", "multiple": 8, "fill": 7}
    assert data["forms"][2] == {"output": "mask", "form": "ragged"}
    assert Graph.from_data(data).to_data() == data
    assert pipeline_id(Graph.from_data(data)) == pipeline_id(graph)


def test_a_form_is_a_part_of_the_identity():
    def made(wrap):
        @pipeline
        def one(sample):
            return {"words": wrap(sample.words)}

        return one.graph()

    wraps = [
        lambda x: x,
        outputs.pad,
        outputs.ragged,
        outputs.as_list,
        lambda x: outputs.pad(x, multiple=2),
        lambda x: outputs.pad(x, fill=3),
        lambda x: outputs.pad(x, to="bound"),
    ]
    graphs = [made(wrap) for wrap in wraps]
    assert len({pipeline_id(graph) for graph in graphs}) == len(wraps)
    assert "forms" not in graphs[0].to_data()


def test_explained(plan):
    text = explain(plan)
    assert "output 'image' = v" in text
    assert "and its size, pad to the longest, a multiple of 8, fill 7" in text
    assert "  image: image uint8 (<=56, <=56, 3), pad" in text
    assert "  mixed: image uint8 (<=50, <=90, <=3), list" in text


# ---------------------------------------------------------------- refused


def refusal(define, states=STATES) -> str:
    with pytest.raises(BuildError) as caught:
        bind(pipeline(define).graph(), states)
    return str(caught.value)


def test_a_stacked_output_names_the_forms():
    said = refusal(lambda sample: {"image": sample.image})
    assert "output 'image' is image uint8[<=60x<=80x3], whose size differs" in said
    assert "fix its size with resize" in said
    assert "outputs.pad(...), outputs.ragged(...) or outputs.as_list(...)" in said


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (lambda x: outputs.pad(x, multiple=0), "expected multiple from 1 to 65536, got 0"),
        (lambda x: outputs.pad(x, multiple=True), "expected multiple from 1 to 65536, got True"),
        (lambda x: outputs.pad(x, multiple=70000), "expected multiple from 1 to 65536, got 70000"),
        (lambda x: outputs.pad(x, to="row"), "expected to='longest' or 'bound', got 'row'"),
        (lambda x: outputs.pad(x, fill="x"), "expected fill to be a finite number, got 'x'"),
        (lambda x: outputs.pad(x, fill=float("nan")), "to be a finite number, got nan"),
        (lambda x: outputs.pad(x, fill=256), "for image .* an integer from 0 to 255, got 256"),
        (lambda x: outputs.pad(x, fill=0.5), "to be an integer from 0 to 255, got 0.5"),
        (lambda x: outputs.pad(outputs.ragged(x)), "expected a value without a form, got ragged"),
        (lambda x: outputs.as_list(3), "as_list: expected a value made from the sample's fields"),
        (lambda x: ops.invert(outputs.pad(x)), r"a form \(pad\) says .* after all ops"),
    ],
)
def test_forms_that_cannot_be(form, said):
    with pytest.raises(BuildError, match=said) as caught:
        bind(pipeline(lambda sample: {"image": form(sample.image)}).graph(), STATES)
    assert "test_forms.py:" in str(caught.value)


@pytest.mark.parametrize(
    ("define", "said"),
    [
        (
            lambda sample: {"label": outputs.pad(sample.label)},
            r"label int64\[\] is one number, which cannot have a form \(pad\)",
        ),
        (
            lambda sample: {"boxes": outputs.as_list(sample.boxes)},
            "boxes are delivered as values and offsets, and cannot have another form",
        ),
        (
            lambda sample: {
                "x": outputs.pad(ops.normalize(sample.image, dtype="float16"), fill=1e5)
            },
            "to be a number that float16 holds, got 100000.0",
        ),
        (
            lambda sample: {"x": outputs.pad(sample.flags, fill=2)},
            "to be 0 or 1, got 2",
        ),
    ],
)
def test_values_without_the_form(define, said):
    fields = ({"name": "xyxy", "dtype": "float32", "width": 4},)
    from stoker.protocol.item_fields import ItemField  # noqa: PLC0415

    boxes = State.ragged("boxes", tuple(ItemField(**field) for field in fields), 5)
    with pytest.raises(BuildError, match=said):
        bind(pipeline(define).graph(), {**STATES, "boxes": boxes})


def test_a_padded_size_that_follows_from_pixels():
    def define(sample):
        image = sample.image
        if sample.mask.mean() > 100:
            image = ops.resize(image, size=(8, 8))
        return {"image": outputs.pad(image), "rest": outputs.as_list(image)}

    said = refusal(define)
    assert "output 'image' is padded to the longest row of its batch" in said
    assert "depends on a condition that reads pixels (mean)" in said
    assert "test_forms.py:" in said

    def to_the_bound(sample):
        image = sample.image
        if sample.mask.mean() > 100:
            image = ops.resize(image, size=(8, 8))
        return {"image": outputs.pad(image, to="bound")}

    (image, _) = bind(pipeline(to_the_bound).graph(), STATES).outputs
    assert image.shape == STATES["image"].bound


def test_images_of_differing_channels_are_delivered_alone():
    def stacked(sample, ctx):
        return {"x": sample.gray if ctx.chance(0.5) else sample.image}

    def padded(sample, ctx):
        return {"x": outputs.pad(sample.gray if ctx.chance(0.5) else sample.image)}

    def read(sample, ctx):
        x = sample.gray if ctx.chance(0.5) else sample.image
        return {"x": outputs.as_list(x), "y": outputs.as_list(ops.invert(x))}

    for define in (stacked, padded):
        assert "deliver the joined value by outputs.as_list, without a later op" in refusal(define)
    assert "can only be delivered, by outputs.as_list" in refusal(read)


def test_statistics_of_what_may_be_empty():
    said = refusal(lambda sample: {"m": sample.words.mean()})
    assert "mean: array int32[<=9] may be empty, and then has no mean" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"output": "none", "form": "pad"},
            "form of 'none': expected the name of an output without",
        ),
        ({"output": "words", "form": "list", "fill": 3}, "only pad takes a multiple, a fill and a"),
        ({"output": "words", "form": "tower"}, "Invalid enum value 'tower'"),
        ({"output": "words", "form": "pad", "multiple": 0}, "Expected `int` >= 1"),
        (
            {"output": "words", "form": "pad", "fill": 1e300},
            "expected a finite fill up to .*, got 1e\\+300",
        ),
    ],
)
def test_graph_data_that_cannot_be(change, said):
    data = pipeline(lambda sample: {"words": outputs.pad(sample.words)}).graph().to_data()
    with pytest.raises(BuildError, match=said):
        Graph.from_data({**data, "forms": [change]})
    doubled = {**data, "forms": data["forms"] * 2}
    with pytest.raises(BuildError, match="expected the name of an output without another form"):
        Graph.from_data(doubled)


# ---------------------------------------------------------------- with batch ops

SAME = State.fixed("image", "uint8", (12, 16, 3))


def mixing(wrap):
    @pipeline
    def mixed(sample):
        return {"x": ops.mixup(sample.image, p=1.0), "words": wrap(sample.words)}

    return mixed


def test_rows_of_differing_shape_stand_beside_mixed_ones(photograph):
    samples = [sample_of(number, photograph) for number in range(5)]
    for number, sample in enumerate(samples):
        sample["image"] = photograph[number : number + 12, :16]
        sample["words"] = np.pad(sample["words"], (0, 9 - len(sample["words"])))
    for wrap in (outputs.ragged, outputs.as_list):
        made = mixing(wrap).batch(samples, seed=1)
        for row, sample in zip(made, samples, strict=True):
            assert row["words"].tolist() == sample["words"].tolist()
        assert not all(
            np.array_equal(row["x"], s["image"]) for row, s in zip(made, samples, strict=True)
        )


def test_what_forms_and_batch_ops_would_ask_of_each_other():
    def formed(sample):
        return {"x": outputs.as_list(ops.mixup(sample.image))}

    states = {**STATES, "image": SAME}
    said = refusal(formed, states)
    assert (
        "output 'x': a batch op mixes rows of one shape, so the output cannot have a form (list)"
        in said
    )
    with pytest.raises(BuildError, match="a pipeline with batch ops cannot pad, since rows that"):
        bind(mixing(outputs.pad).graph(), states)
    bind(mixing(outputs.ragged).graph(), states)


def test_a_padded_size_that_follows_from_what_is_left_of_boxes():
    from stoker.protocol.item_fields import ItemField  # noqa: PLC0415

    boxes = State.ragged("boxes", (ItemField("xyxy", "float32", 4),), 5, "image")

    def counted(sample):
        image, boxes = ops.random_crop(sample.image, sample.boxes, size=10, padding=4)
        if boxes.count > 2:
            image = ops.resize(image, size=(8, 8))
        return {"image": outputs.pad(image)}

    def looked_at(sample):
        image, boxes = ops.iou_crop(sample.image, sample.boxes)
        return {"image": outputs.pad(image), "boxes": boxes}

    states = {**STATES, "boxes": boxes}
    assert "depends on the number of remaining boxes" in refusal(counted, states)
    assert "depends on iou_crop, which reads its boxes" in refusal(looked_at, states)
