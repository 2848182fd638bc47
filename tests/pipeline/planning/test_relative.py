"""`relative=True`: values of other sizes follow one decision, in parts of their sides."""

from fractions import Fraction

import numpy as np
import pytest
from PIL import Image

from stoker import ops
from stoker.ops.contract.states import State
from stoker.pipeline import one_of, outputs, pipeline, pipelines, sync_seed
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.compiled.size_program import SizeFinder
from stoker.pipeline.engine.drawing import drawn_by
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.plain_sizes import PlainSizes
from stoker.pipeline.plain.replay_row import replay
from stoker.pipeline.planning.planner import bind, shorten
from stoker.pipeline.showing.explain_plan import explain
from stoker.protocol.errors import BuildError, SampleError
from stoker.protocol.item_fields import ItemField
from stoker.rng.row import Row, row_table

SIZES = [((60, 84), (30, 42)), ((61, 83), (31, 42)), ((40, 90), (90, 40)), ((33, 40), (66, 80))]
TURNED = SIZES[:2] + SIZES[3:]


def fixed(image, depth):
    return {
        "image": State.fixed("image", "uint8", (*image, 3)),
        "depth": State.fixed("mask", "uint8", depth),
    }


def free(*_):
    return {
        "image": State("image", "uint8", (None, None, 3), (100, 100, 3)),
        "depth": State("mask", "uint8", (None, None), (100, 100)),
    }


def values(image, depth, seed=1):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 256, (*image, 3), np.uint8),
        rng.integers(0, 256, depth, np.uint8),
    ]


def called(op, **more):
    """Return a pipeline that calls an op once, with an image and a depth map of another size."""

    @pipeline
    def joint(sample):
        image, depth = op(sample.image, sample.depth, relative=True, **more)
        return {"image": outputs.as_list(image), "depth": outputs.as_list(depth)}

    return joint


OPS = {
    "affine": ops.Affine(30, translate=0.3, scale=(0.6, 1.4), shear=10),
    "coarse_dropout": ops.CoarseDropout((1, 4), (0.1, 0.6), (0.1, 0.6), fill=7, mask_fill=9, p=0.9),
    "erase": ops.Erase(p=0.9, scale=(0.02, 0.6), fill=7, mask_fill=9),
    "fit_bucket": ops.FitBucket((24, 40), crop="random"),
    "grid_distortion": ops.GridDistortion(p=0.9),
    "horizontal_flip": ops.HorizontalFlip(),
    "letterbox": ops.Letterbox((32, 50)),
    "optical_distortion": ops.OpticalDistortion((-0.3, 0.4), fill=5, p=0.9),
    "perspective": ops.Perspective(0.6, p=0.8),
    "random_resized_crop": ops.RandomResizedCrop(24, interpolation="nearest"),
    "random_short_side_scale": ops.RandomShortSideScale((10, 40), 64),
    "resize": ops.Resize((20, 20)),
    "resize_long": ops.ResizeLong(30),
    "resize_short": ops.ResizeShort(20, 60),
    "rot90": ops.Rot90(),
    "rotate": ops.Rotate(40, fill=3),
    "rotate_expand": ops.RotateExpand(40, fill=3),
    "safe_rotate": ops.SafeRotate(40, fill=3),
    "scale_jitter": ops.ScaleJitter((30, 40), (0.4, 1.6)),
    "transpose": ops.Transpose(),
    "zoom_out": ops.ZoomOut((1.0, 1.8), fill=5),
}


RATIO = ("affine", "letterbox", "rotate", "rotate_expand", "safe_rotate")


@pytest.mark.slow
@pytest.mark.parametrize("states", [fixed, free])
@pytest.mark.parametrize("name", OPS)
def test_both_engines_agree(both, rows, name, states):
    for sizes in TURNED if name in RATIO else SIZES:
        plan = bind(called(OPS[name]).graph(), states(*sizes))
        results = both(plan, rows, values(*sizes))
        assert len({tuple(out.tobytes() for out in row) for row in results}) > 1 or not plan.streams


@pytest.mark.parametrize("name", OPS)
def test_values_of_one_size_are_as_without(interpret, rows, name):
    """With known sizes the plans are equal; with unknown sizes the bytes are equal."""
    sizes = ((30, 42), (30, 42))

    @pipeline
    def plain(sample):
        image, depth = OPS[name](sample.image, sample.depth)
        return {"image": outputs.as_list(image), "depth": outputs.as_list(depth)}

    for states in (fixed(*sizes), free()):
        one, other = (bind(p.graph(), states) for p in (called(OPS[name]), plain))
        assert one.pipeline_id != other.pipeline_id
        for row in rows[:4]:
            left, right = (interpret(plan, row, values(*sizes)) for plan in (one, other))
            assert [x.tobytes() for x in left] == [x.tobytes() for x in right]
        if states["image"].is_fixed:
            assert len(one.decisions) == len(other.decisions) == 1


def cropped(depth, record, sizes, size):
    """Crop and resize a depth map by hand, from the record of its picture, by Pillow."""
    edges = []
    for first, count, before, after in (
        ("left", "width", sizes[0][1], sizes[1][1]),
        ("top", "height", sizes[0][0], sizes[1][0]),
    ):
        start, end = (
            int(Fraction(at * after, before) + Fraction(1, 2))
            for at in (record[first], record[first] + record[count])
        )
        start = min(start, after - 1)
        edges.append((start, max(end, start + 1)))
    (left, right), (top, bottom) = edges
    part = Image.fromarray(depth[top:bottom, left:right].astype(np.int32))
    return np.asarray(part.resize((size, size), Image.Resampling.NEAREST)).astype(np.uint8)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_crop_is_that_of_the_record_by_hand(interpret, sizes):
    plan = bind(called(OPS["random_resized_crop"]).graph(), fixed(*sizes))
    image, depth = values(*sizes)
    for number in range(40):
        row = Row(5, number, 0)
        (drawn,) = decide(plan, row, {})
        found = interpret(plan, row, [image, depth])[2]
        expected = cropped(depth, drawn["record"], sizes, 24)
        assert np.array_equal(found[: 24 * 24].reshape(24, 24), expected)


def doubled(array):
    return np.ascontiguousarray(array.repeat(2, 0).repeat(2, 1))


@pytest.mark.parametrize(
    "name", ["erase", "horizontal_flip", "random_resized_crop", "rot90", "transpose", "zoom_out"]
)
def test_a_half_map_is_as_its_double_in_a_joint_call(name):
    """Pixel truth: where the record has even numbers, half the map, doubled, is the double map."""

    @pipeline
    def joint(sample):
        _, depth, whole = OPS[name](sample.image, sample.depth, sample.whole, relative=True)
        return {"depth": outputs.as_list(depth), "whole": outputs.as_list(whole)}

    image, depth = values((60, 84), (30, 42))
    fields = {"image": image, "depth": depth, "whole": doubled(depth)}
    plan, seen = joint.plan_for(fields), 0
    for number in range(300):
        record = decide(plan, Row(3, number, 0), {})[0]["record"]
        if any(record.get(key, 0) % 2 for key in ("top", "left", "height", "width")):
            continue
        row = joint(fields, seed=3, id=number)
        same = row["depth"] if name == "random_resized_crop" else doubled(row["depth"])
        assert np.array_equal(same, row["whole"])
        seen += 1
    assert seen > 10


def test_boxes_follow_the_first_value(interpret):
    """They count in its pixels, with any other sizes in the call."""
    items = (ItemField("xyxy", "float32", 4),)
    states = {**free(), "boxes": State.ragged("boxes", items, 4, "image")}

    def define(more):
        @pipeline
        def detection(sample):
            image, *_, boxes = ops.random_resized_crop(
                sample.image,
                *([sample.depth] if more else []),
                sample.boxes,
                size=24,
                relative=more,
            )
            image, boxes = ops.rotate(image, boxes, degrees=20)
            return {"image": image, "boxes": boxes}

        return detection

    image, depth = values((60, 84), (31, 40))
    boxes = np.array([[5, 5, 40, 50], [30, 10, 80, 55]], np.float32).view(np.uint32)
    with_depth, alone = (bind(define(more).graph(), states) for more in (True, False))
    for number in range(10):
        given = {"image": image, "depth": depth, "boxes": boxes}
        rows = [
            interpret(plan, Row(1, number, 0), [given[name] for name in plan.fields])
            for plan in (with_depth, alone)
        ]
        assert [x.tobytes() for x in rows[0]] == [x.tobytes() for x in rows[1]]


def iou(sample):
    image, depth, boxes = ops.iou_crop(sample.image, sample.depth, sample.boxes, relative=True)
    return {
        "image": outputs.as_list(image),
        "depth": outputs.as_list(depth),
        "boxes": boxes,
    }


@pytest.mark.slow
def test_a_crop_that_looks_at_boxes_is_carried_over(both, rows):
    items = (ItemField("xyxy", "float32", 4),)
    states = {**free(), "boxes": State.ragged("boxes", items, 4, "image")}
    plan = bind(pipeline(iou).graph(), states)
    image, depth = values((60, 84), (30, 42))
    given = {
        "image": image,
        "depth": depth,
        "boxes": np.array([[5, 5, 40, 50], [30, 10, 80, 55]], np.float32).view(np.uint32),
    }
    found = both(plan, rows, [given[name] for name in plan.fields])
    places = {output.name: at for at, output in enumerate(plan.outputs)}
    sizes = [(row[places["image.size"]], row[places["depth.size"]]) for row in found]
    assert len({tuple(depth) for _, depth in sizes}) > 3
    for picture, part in sizes:
        assert all(abs(a / 2 - b) <= 1 for a, b in zip(picture[:2], part, strict=True))


def branching(sample, ctx):
    """A decision before a branch, one with parameters of a schedule, and others inside."""
    crop = ops.RandomResizedCrop(size=(20, 28), scale=(0.2, 0.9))
    image = crop(sample.image)
    if sample.image.width > 82:
        depth = crop(sample.depth, relative=True)
        image = ops.invert(image, p=1.0)
    else:
        depth = ops.resize(sample.depth, size=(20, 28))
        image, depth = ops.horizontal_flip(image, depth)
    turned, map_ = ops.rotate(
        sample.image, sample.depth, degrees=(-10, 10 + 30 * ctx.progress), relative=True
    )
    scaled, small = ops.random_short_side_scale(
        turned, map_, sizes=(20, 40), max_size=70, relative=True
    )
    wide, narrow = one_of(
        scaled, small, choices=[lambda *both: ops.perspective(*both, p=1.0, relative=True), None]
    )
    return {
        "image": image,
        "depth": ops.unlinked(depth),
        "wide": outputs.pad(wide),
        "narrow": outputs.pad(narrow, fill=7),
    }


@pytest.mark.slow
def test_branches_schedules_and_padded_outputs(both):
    """Sizes that are only known for each sample, in every engine."""
    plan = bind(pipeline(branching).graph(), free())
    rows = [Row(4, number, 1, number % 2, 0, number, number / 8) for number in range(8)]
    finders, guarded = (PlainSizes(plan), SizeFinder(plan)), Guarded(plan)
    for sizes in TURNED:
        given = values(*sizes)
        found = both(plan, rows, given)
        for row, expected in zip(rows, found, strict=True):
            got = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
            guarded.run(row, given, got)
            assert [x.tobytes() for x in got] == [x.tobytes() for x in expected]
            padded = [expected[at] for at, o in enumerate(plan.outputs) if o.kind == "size"]
            for finder in finders:
                measured = np.array([[value.shape[:2] for value in given]])
                told = finder.find(row, row_table([row]), measured, [])
                assert told[0].tolist() == [size.tolist() for size in padded]


@pytest.mark.slow
def test_rows_in_chunks_are_rows_one_by_one(both, rows, located):
    """The records of carried decisions move on from row to row with all others."""
    plan = bind(called(OPS["random_resized_crop"]).graph(), fixed(*SIZES[1]))
    given = [np.ascontiguousarray(value) for value in values(*SIZES[1])]
    engine, expected = compile_plan(plan), both(plan, rows, given)
    outs = [np.zeros((len(rows), *o.shape), o.dtype) for o in plan.outputs]
    records = engine.room_for_records(len(rows))
    engine.run_rows(
        row_table(rows),
        located([value[None] for value in given], np.zeros(len(rows), np.int64)),
        outs,
        records,
    )
    for place, row in enumerate(expected):
        assert [out[place].tobytes() for out in outs] == [value.tobytes() for value in row]
    assert len({record.tobytes() for record in records["d1"]}) > 3


def test_the_ways_to_write_it_are_one_graph():
    crop = ops.RandomResizedCrop(24)

    @pipeline
    def called_once(sample):
        image, depth = crop(sample.image, sample.depth, relative=True)
        return {"image": image, "depth": depth}

    @pipeline
    def one_instance(sample):
        return {"image": crop(sample.image), "depth": crop(sample.depth, relative=True)}

    @pipeline
    def one_stream(sample):
        stream = "random_resized_crop"
        image = ops.random_resized_crop(sample.image, size=24, stream=stream)
        depth = ops.random_resized_crop(sample.depth, size=24, stream=stream, relative=True)
        return {"image": image, "depth": depth}

    made = (called_once, one_instance, one_stream)
    assert len({made_one.pipeline_id for made_one in made}) == 1
    applies = [n for n in called_once.graph().to_data()["nodes"] if n["node"] == "apply"]
    assert [node.get("relative") for node in applies] == [None, True]


def test_lists_may_have_a_mark_for_a_field_of_another_size():
    made = pipelines(
        {
            "image": [sync_seed("a"), ops.RandomResizedCrop(24), ops.HorizontalFlip()],
            "depth": [
                sync_seed("a", relative=True), ops.RandomResizedCrop(24), ops.HorizontalFlip(),
            ],
        }
    )  # fmt: skip

    @pipeline
    def joint(sample):
        crop, flip = "a/random_resized_crop", "a/horizontal_flip"
        image, depth = ops.random_resized_crop(
            sample.image, sample.depth, size=24, stream=crop, relative=True
        )
        image, depth = ops.horizontal_flip(image, depth, stream=flip)
        return {"image": image, "depth": depth}

    image, depth = values(*SIZES[1])
    for number in range(5):
        left, right = (p({"image": image, "depth": depth}, id=number) for p in (made, joint))
        assert np.array_equal(left["depth"], right["depth"])
        assert np.array_equal(left["image"], right["image"])


def test_what_is_told_of_a_row_is_what_was_drawn():
    plan = bind(called(OPS["random_resized_crop"]).graph(), fixed(*SIZES[0]))
    assert [drawn.name for drawn in drawn_by(plan)] == ["random_resized_crop"]
    row, given = Row(1, 2, 3), values(*SIZES[0])
    (step,) = replay(plan, row, given).steps
    assert [value.name for value in step.values] == ["image", "depth"]
    (told,) = decide(plan, row, {})
    assert (
        step.parameters
        == told["record"]
        == ops.RandomResizedCrop(24).sample(*SIZES[0][0], seed=1, id=2, epoch=3)
    )
    assert "d1 = d0 in parts of the sides of v" in explain(plan)


def test_a_resize_of_two_sizes_is_not_joined_with_its_crop(interpret):
    @pipeline
    def evaluation(sample):
        image, depth = ops.resize(sample.image, sample.depth, size=(30, 30), relative=True)
        image, depth = ops.center_crop(image, depth, size=20)
        return {"image": image, "depth": depth}

    row, given = Row(1, 2, 3), values(*SIZES[1])
    written = bind(evaluation.graph(), free())
    plans = [written, shorten(written)]
    assert [[d.op.name for d in plan.decisions] for plan in plans] == [
        ["resize", "center_crop"]
    ] * 2
    found = [[out.tobytes() for out in interpret(plan, row, given)] for plan in plans]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("op", "sizes", "message"),
    [
        (ops.RandomCrop(20), SIZES[0], "random_crop on field 'image' and field 'depth', image uint8"
         r"\[60x84x3\] and mask uint8\[30x42\]: random_crop decides in pixels, .*"
         "cannot take relative=True. Resize one of them first"),
        (ops.Elastic(), SIZES[0], "elastic .* cannot take relative=True"),
        (ops.GridMask(), SIZES[0], "grid_mask .* cannot take relative=True"),
        (ops.Rotate(9), SIZES[2], "rotate on field 'image' and field 'depth', .*40x90x3.*90x40.*: "
         "with relative=True, its values must have the same ratio of height to width"),
    ],
    ids=["random_crop", "elastic", "grid_mask", "rotate"],
)  # fmt: skip
def test_what_cannot_be_carried_over_is_refused(op, sizes, message):
    with pytest.raises(BuildError, match=rf"test_relative.py:\d+: {message}"):
        bind(called(op).graph(), fixed(*sizes))


@pytest.mark.parametrize("op", [ops.RandomCrop(20), ops.GaussianBlur()])
def test_sizes_that_are_not_known_are_refused_too(op):
    states = free()
    states["depth"] = State("image", "uint8", (None, None, 3), (100, 100, 3))
    with pytest.raises(BuildError, match="cannot take relative=True"):
        bind(called(op).graph(), states)


def test_the_remedy_is_named_where_there_is_one():
    @pipeline
    def joint(sample):
        image, depth = ops.random_resized_crop(sample.image, sample.depth, size=24)
        return {"image": image, "depth": depth}

    @pipeline
    def windows(sample):
        image, depth = ops.random_crop(sample.image, sample.depth, size=24)
        return {"image": image, "depth": depth}

    with pytest.raises(BuildError, match="one of them first, call it with relative=True, or give"):
        bind(joint.graph(), fixed(*SIZES[0]))
    with pytest.raises(BuildError, match="one of them first, or give each"):
        bind(windows.graph(), fixed(*SIZES[0]))
    engine = Interpreter(bind(joint.graph(), free()))
    outs = [np.zeros(o.shape, o.dtype) for o in engine.plan.outputs]
    with pytest.raises(SampleError, match=r"and 30x42\. If that is intended, call"):
        engine.run(Row(1, 2, 3), values(*SIZES[0]), outs)


@pytest.mark.parametrize("engine", [Interpreter, compile_plan])
def test_a_sample_of_two_ratios_is_a_bad_one(engine):
    plan = bind(called(ops.Rotate(20)).graph(), free())
    outs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    message = (
        "sample 2: .*rotate on field 'image' and field 'depth': with relative=True, expected the "
        "same ratio of height to width up to rounding, got 40x90 and 90x40"
    )
    with pytest.raises(SampleError, match=message):
        engine(plan).run(Row(1, 2, 3), values(*SIZES[2]), outs)


@pytest.mark.parametrize("op", [ops.Stack(), ops.Mixup()])
def test_what_makes_one_of_several_is_refused(op):
    @pipeline
    def joint(sample):
        large, small = ops.resize(sample.image, size=(9, 9)), ops.resize(sample.image, size=(8, 8))
        made = op(ops.normalize(large), ops.normalize(small), relative=True)
        some = made if isinstance(made, tuple) else (made,)
        return {str(number): value for number, value in enumerate(some)}

    with pytest.raises(BuildError, match=f"{op.name} .*remove relative=True"):
        bind(joint.graph(), fixed(*SIZES[0]))


def test_relative_is_a_truth_value():
    @pipeline
    def joint(sample):
        return {"image": ops.invert(sample.image, relative="yes")}

    with pytest.raises(
        BuildError, match="invert: expected relative to be True or False, got 'yes'"
    ):
        joint.graph()
