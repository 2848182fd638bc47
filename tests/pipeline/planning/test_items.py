"""Boxes and keypoints in pipelines: what binds, what is refused, and both engines bit for bit."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from stoker import ops
from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import ItemsKernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.states import State, StateError
from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.decoded_boxes import windowed
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, SampleError, UsageError
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import pack_items, unpack_items

BOXES = (ItemField("xyxy", "float32", 4), ItemField("label", "int64"))
POINTS = (ItemField("xy", "float32", 2), ItemField("person", "uint8"))
MOST = 6
STATES = {
    "image": State("image", "uint8", (None, None, 3), (90, 90, 3)),
    "mask": State("mask", "uint8", (None, None), (90, 90)),
    "boxes": State.ragged("boxes", BOXES, MOST, "image"),
    "keypoints": State.ragged("keypoints", POINTS, MOST, "image"),
    "free": State.ragged("boxes", BOXES[:1], MOST),
    "label": State.fixed("label", "int64", ()),
}


def sample(seed, count=None):
    """A sample of noise; `count` boxes and keypoints, or a random number."""
    noise = np.random.default_rng(seed)
    height, width = noise.integers(40, 91, 2)
    count = int(noise.integers(0, MOST + 1)) if count is None else count
    at = noise.uniform(0, 1, (count, 2, 2)) * [width, height]
    corners = np.hstack([at.min(1), at.max(1)]).astype(np.float32)
    return {
        "image": noise.integers(0, 256, (height, width, 3), dtype=np.uint8),
        "mask": noise.integers(0, 9, (height, width), dtype=np.uint8),
        "boxes": pack_items(BOXES, {"xyxy": corners, "label": np.arange(count) - 2**40}),
        "keypoints": pack_items(
            POINTS, {"xy": at[:, 0].astype(np.float32), "person": np.arange(count, dtype=np.uint8)}
        ),
        "free": pack_items(BOXES[:1], {"xyxy": corners}),
        "label": np.int64(seed),
    }


def run(engine, row, fields):
    """Outputs of a row by name; ragged ones cut to their count, other memory painted before."""
    plan = engine.plan
    outputs = [np.full(o.shape, 77, o.dtype) for o in plan.outputs]
    engine.run(row, [fields[name] for name in plan.fields], outputs)
    found = dict(zip((o.name for o in plan.outputs), outputs, strict=True))
    return {
        o.name: found[o.name][: found[f"{o.name}.count"]] if o.items else found[o.name]
        for o in plan.outputs
    }


def bound(define, **states):
    return bind(pipeline(define).graph(), {**STATES, **states})


@pipeline
def everything(sample):
    image, mask, boxes, points = sample.image, sample.mask, sample.boxes, sample.keypoints
    boxes = ops.track_visible(boxes)
    many = boxes.count > 3
    image, mask, boxes, points = ops.random_resized_crop(image, mask, boxes, points, size=64)
    image, boxes, points = ops.horizontal_flip(image, boxes, points)
    if many and points.count >= 2:
        image, boxes, points = ops.affine(image, boxes, points, degrees=30, scale=(0.5, 1.5))
    else:
        image, boxes, points = ops.rot90(image, boxes, points)
    image, boxes, points = ops.perspective(image, boxes, points, p=0.7)
    image, boxes, points = ops.letterbox(image, boxes, points, size=(70, 60))
    boxes = ops.filter_boxes(boxes, min_side=2, min_visible=0.2)
    boxes = ops.convert_boxes(boxes, form="cxcywh")
    return {"image": image, "boxes": boxes, "points": points, "left": boxes.count}


@pytest.mark.slow
@pytest.mark.timeout(300)  # where the cache is cold it compiles nine ops
def test_both_engines_agree():
    plan = bind(everything.graph(), STATES)
    plain, fast = Interpreter(plan), compile_plan(plan)
    kept = 0
    for seed in range(150):
        row, fields = Row(seed % 3, seed, seed // 50), sample(seed, 0 if seed % 10 == 0 else None)
        expected, got = run(plain, row, fields), run(fast, row, fields)
        for name, array in expected.items():
            assert array.tobytes() == got[name].tobytes(), (seed, name)
        assert expected["left"] == len(expected["boxes"])
        kept += len(expected["boxes"])
    assert kept > 100


def test_fields_stay_with_their_items():
    plan = bound(everything.graph and everything._define)
    for seed in range(40):
        fields = sample(seed)
        found = run(Interpreter(plan), Row(0, seed, 0), fields)
        labels = unpack_items(plan.outputs[1].items, found["boxes"])["label"]
        given = unpack_items(BOXES, fields["boxes"])["label"]
        assert list(labels) == [label for label in given if label in labels], "in their order"
        people = unpack_items(POINTS, found["points"])["person"]
        assert set(people) <= set(unpack_items(POINTS, fields["keypoints"])["person"])


def test_outputs_are_described():
    plan = bind(everything.graph(), STATES)
    by_name = {output.name: output for output in plan.outputs}
    assert list(by_name) == ["image", "boxes", "boxes.count", "points", "points.count", "left"]
    fields = [(f.name, f.dtype, f.width) for f in by_name["boxes"].items]
    assert fields == [
        ("cxcywh", "float32", 4), ("label", "int64", 1), ("visible_part", "float32", 1)
    ]  # fmt: skip
    assert by_name["boxes"].shape == (MOST, 7)


def test_an_empty_dataset_of_boxes_is_legal():
    empty = State.ragged("boxes", BOXES, 0, "image")

    def define(sample):
        image, boxes = ops.resize(sample.image, sample.boxes, size=(32, 32))
        return {"image": image, "boxes": boxes}

    plan = bound(define, boxes=empty)
    fields = sample(3, count=0)
    assert len(run(Interpreter(plan), Row(0, 0, 0), fields)["boxes"]) == 0


def test_same_instance_and_same_stream_decide_once():
    def together(sample):
        image, boxes = ops.horizontal_flip(sample.image, sample.boxes)
        return {"image": ops.resize(image, size=(8, 8)), "boxes": boxes}

    def instance(sample):
        flip = ops.HorizontalFlip()
        image = flip(sample.image)
        return {"image": ops.resize(image, size=(8, 8)), "boxes": flip(sample.boxes)}

    def stream(sample):
        image = ops.horizontal_flip(sample.image, stream="horizontal_flip")
        boxes = ops.horizontal_flip(sample.boxes, stream="horizontal_flip")
        return {"image": ops.resize(image, size=(8, 8)), "boxes": boxes}

    found = {pipeline(define).pipeline_id for define in (together, instance, stream)}
    assert len(found) == 1


@pytest.mark.parametrize("name", ["brightness", "gaussian_blur", "color_jitter", "normalize"])
def test_ops_of_pixels_alone_are_refused(name):
    def define(sample):
        op = ops.make(name, {"brightness": 0.5} if name == "color_jitter" else {})
        image, boxes = ops.resize(sample.image, sample.boxes, size=(8, 8))
        image, boxes = op(image, boxes)
        return {"image": image, "boxes": boxes}

    with pytest.raises(BuildError, match=f"{name} has no rule for boxes; it has rules for: image"):
        bound(define)


def refused(define, said, **states):
    with pytest.raises(BuildError, match=said) as caught:
        bound(define, **states)
    assert "test_items.py" in caught.value.message


def test_boxes_need_their_image():
    def alone(sample):
        return {"boxes": ops.horizontal_flip(sample.boxes)}

    def boxes_first(sample):
        boxes, image = ops.horizontal_flip(sample.boxes, sample.image)
        return {"boxes": boxes, "image": ops.resize(image, size=(8, 8))}

    for define in (alone, boxes_first):
        refused(define, r"moves boxes along with an image: .* horizontal_flip\(image, boxes\)")


def test_boxes_that_missed_an_op_are_refused():
    def define(sample):
        image = ops.resize(sample.image, size=(32, 32))
        image, boxes = ops.horizontal_flip(image, sample.boxes)
        return {"image": image, "boxes": boxes}

    refused(define, "field 'boxes', but these boxes do not count in pixels of the size")


def test_branches_that_do_the_same_to_both_join():
    def define(sample):
        image, boxes = sample.image, sample.boxes
        if boxes.count > 1:
            image, boxes = ops.resize(image, boxes, size=(32, 32))
        else:
            image, boxes = ops.random_crop(image, boxes, size=24)
        image, boxes = ops.horizontal_flip(image, boxes)
        return {"image": ops.resize(image, size=(8, 8)), "boxes": ops.unlinked(boxes)}

    plan = bound(define)
    for count in (0, 1, 2, 5):
        assert len(run(Interpreter(plan), Row(0, count, 0), sample(count, count))["boxes"]) <= count


def test_branches_that_forget_the_boxes_are_refused():
    def define(sample):
        image, boxes = sample.image, sample.boxes
        if boxes.count > 1:
            image = ops.resize(image, size=(32, 32))
        image, boxes = ops.horizontal_flip(image, boxes)
        return {"image": ops.resize(image, size=(8, 8)), "boxes": boxes}

    refused(define, "do not count in pixels of the size")


def test_branches_with_other_fields_are_refused():
    def define(sample):
        boxes = sample.boxes
        if sample.label > 1:
            boxes = ops.track_visible(boxes)
        return {"boxes": boxes}

    refused(define, "items with other fields cannot join")


def test_boxes_of_no_picture_follow_the_first_image():
    def define(sample):
        image, boxes = ops.resize(sample.image, sample.free, size=(32, 32))
        image, boxes = ops.horizontal_flip(image, boxes)
        return {"image": image, "boxes": boxes}

    assert bound(define).outputs[1].items == BOXES[:1]


def test_boxes_of_no_picture_may_meet_it_in_a_branch():
    def define(sample):
        image, boxes = sample.image, sample.free
        if boxes.count > 1:
            image, boxes = ops.rot90(image, boxes)
        image, boxes = ops.resize(image, boxes, size=(32, 32))
        return {"image": image, "boxes": boxes}

    assert len(bound(define).outputs) == 3


def test_boxes_with_the_mask_alone_check_that_image_and_mask_agree():
    def define(sample):
        mask, boxes = ops.resize(sample.mask, sample.boxes, size=(32, 32))
        image = ops.resize(sample.image, size=(8, 8))
        return {"mask": mask, "boxes": ops.unlinked(boxes), "image": image}

    def swapped(sample):
        image = ops.resize(sample.image, size=(8, 8))
        mask, boxes = ops.resize(sample.mask, sample.boxes, size=(32, 32))
        return {"image": image, "mask": mask, "boxes": ops.unlinked(boxes)}

    fields = sample(1)
    for plan in (bound(define), bound(swapped)):
        run(Interpreter(plan), Row(0, 0, 0), fields)
    with pytest.raises(SampleError, match="expected one height and width"):
        run(Interpreter(plan), Row(0, 0, 0), {**fields, "mask": fields["mask"][:-1]})


def test_too_many_items_name_the_index():
    plan = bound(lambda sample: {"boxes": sample.boxes})
    with pytest.raises(SampleError, match="the dataset's index does not fit"):
        run(Interpreter(plan), Row(0, 0, 0), sample(0, MOST + 1))


def test_count_is_of_items():
    def define(sample):
        return {"n": sample.image.count}

    refused(define, "count: expected boxes or keypoints, got image")


def test_converted_boxes_go_nowhere_else():
    def define(sample):
        boxes = ops.convert_boxes(sample.boxes, form="xywh")
        image, boxes = ops.horizontal_flip(sample.image, boxes)
        return {"image": ops.resize(image, size=(8, 8)), "boxes": boxes}

    refused(define, "expected boxes as xyxy, got xywh: convert them after all other ops")


def test_visible_needs_tracking():
    def untracked(sample):
        return {"boxes": ops.filter_boxes(sample.boxes, min_visible=0.5)}

    def twice(sample):
        return {"boxes": ops.track_visible(ops.track_visible(sample.boxes))}

    refused(untracked, r"min_visible needs the field 'visible_part'.*call track_visible\(boxes\)")
    refused(twice, "already have a field 'visible_part'")


def test_chunks_have_no_ragged_fields(located):
    plan = bound(lambda sample: {"boxes": sample.boxes})
    engine = compile_plan(plan)
    zeros, places = np.zeros((2, MOST, 6), np.uint32), np.zeros(2, np.int64)
    with pytest.raises(UsageError, match="boxes differ in number from row to row; call run"):
        engine.run_rows(np.zeros((2, 4), np.uint64), located([zeros], places), [zeros, places])


def test_decisions_without_pixels_ask_for_counts():
    def define(sample):
        image, boxes = ops.random_crop(sample.image, sample.boxes, size=20)
        if sample.boxes.count > 2:
            image, boxes = ops.horizontal_flip(image, boxes, p=1.0)
        return {"image": image, "boxes": boxes}

    plan, sizes = bound(define), {"image": (50, 60)}
    drawn = decide(plan, Row(0, 1, 2), sizes, {"boxes": 3})
    assert [d["op"] for d in drawn] == ["random_crop", "horizontal_flip"]
    assert [d["op"] for d in decide(plan, Row(0, 1, 2), sizes, {"boxes": 2})] == ["random_crop"]
    with pytest.raises(UsageError, match="pixels, boxes or arrays"):
        decide(plan, Row(0, 1, 2), sizes)


@kernel
def greedy_run(src: Any, dst: Any, params: Any, record: Any, sizes: Any) -> int:
    return src.shape[0] + 1


@dataclass(frozen=True)
class Greedy(Op):
    """Says that it made an item more than it was given."""

    name: ClassVar[str] = "greedy"
    kernels: ClassVar[dict] = {}
    items: ClassVar[dict[str, ItemsKernel]] = {"boxes": ItemsKernel(greedy_run)}


@pytest.mark.parametrize("engine", [Interpreter, compile_plan])
def test_a_kernel_that_adds_items_is_caught(engine):
    plan = bound(lambda sample: {"boxes": Greedy()(sample.boxes)})
    with pytest.raises(SampleError, match="returned 3 items for 2; it may keep or drop"):
        run(engine(plan), Row(0, 0, 0), sample(0, 2))


def test_states_describe_themselves():
    state = STATES["boxes"]
    assert str(state) == "boxes[<=6: xyxy, label int64]"
    assert state.least == (0, 6)
    with pytest.raises(StateError, match="greedy has no rule for keypoints; it has rules for: box"):
        Greedy().declare_items(STATES["keypoints"])
    assert dataclasses.replace(state, of="").items == state.items


def given(seed, count):
    fields = sample(seed, count)
    return {
        "image": fields["image"],
        "mask": fields["mask"],
        "boxes": unpack_items(BOXES, fields["boxes"]),
        "keypoints": unpack_items(POINTS, fields["keypoints"]),
    }


@pytest.mark.parametrize("count", [0, 1, 5, 30])
def test_in_process_boxes_are_dicts_of_arrays(count):
    fields = given(7, count)
    found = everything(fields, id=7)
    assert list(found) == ["image", "boxes", "points", "left"]
    assert {key: array.dtype.name for key, array in found["boxes"].items()} == {
        "cxcywh": "float32",
        "label": "int64",
        "visible_part": "float32",
    }
    assert len(found["boxes"]["label"]) == found["left"] <= count
    if count <= MOST:
        plan = bind(everything.graph(), STATES)
        words = run(Interpreter(plan), Row(0, 7, 0), sample(7, count))
        expected = unpack_items(plan.outputs[1].items, words["boxes"])
        assert all(np.array_equal(found["boxes"][key], expected[key]) for key in expected)


def test_in_process_outputs_can_be_given_again():
    @pipeline
    def flip(sample):
        image, boxes = ops.horizontal_flip(sample.image, sample.boxes, p=1.0)
        return {"image": image, "boxes": boxes}

    fields = given(2, 3)
    twice = flip(flip({"image": fields["image"], "boxes": fields["boxes"]}))
    assert np.allclose(twice["boxes"]["xyxy"], fields["boxes"]["xyxy"], atol=1e-5)
    assert np.array_equal(twice["image"], fields["image"])


@pytest.mark.parametrize(
    ("boxes", "said"),
    [
        ({"corners": [[1, 2, 3, 4]]}, "expected a dict of arrays with xyxy or xy, got corners"),
        (
            {"xyxy": [[0, 0, 1, 1], [5, 5, 2, 9]]},
            r"boxes: expected left <= right and top <= bottom, got \[5.0, 5.0, 2.0, 9.0\] at 1",
        ),
        ({"xy": [[np.nan, 5]]}, r"keypoints: expected finite coordinates, got \[nan, 5.0\] at 0"),
        (
            {"xyxy": [[0, 0, 1, 1], [-0.5, 5, 2, 9]], "label": [1, 2]},
            r"boxes: expected coordinates in an image of \d+x\d+ .* got \[-0.5, .* at 1; clip",
        ),
        ({"xyxy": [[1, 2, 3, 4]], "label": [1, 2]}, "label: expected 1 rows of numbers, one for"),
        ({"xyxy": [[1, 2, 3, 4]], "name": ["cat"]}, "name: expected 1 rows of numbers"),
    ],
)
def test_in_process_dicts_that_are_no_boxes(boxes, said):
    with pytest.raises(UsageError, match=said):
        everything({**given(0, 1), "boxes": boxes})


def iou(sample):
    image, boxes, points = ops.iou_crop(
        sample.image, ops.track_visible(sample.boxes), sample.keypoints
    )
    if boxes.count > 0:
        image, boxes, points = ops.horizontal_flip(image, boxes, points)
    image, boxes, points = ops.iou_crop(image, boxes, points, min_scale=0.5, stream="again")
    image, boxes, points = ops.resize(image, boxes, points, size=(32, 32))
    return {"image": image, "boxes": boxes, "points": points}


@pytest.mark.slow
@pytest.mark.timeout(300)  # where the cache is cold it compiles
@pytest.mark.parametrize("engine", [compile_plan, Guarded])
def test_decisions_from_boxes_are_the_same_in_every_engine(engine):
    """Also of boxes that earlier ops made, of none, and without pixels."""
    plan = bound(iou)
    plain, other = Interpreter(plan), engine(plan)
    cropped = 0
    for seed in range(40):
        fields = sample(seed, 0 if seed % 10 == 0 else None)
        row = Row(seed, seed, seed % 3)
        expected, got = run(plain, row, fields), run(other, row, fields)
        for name, array in expected.items():
            assert array.tobytes() == got[name].tobytes(), (seed, name)
        size = fields["image"].shape[:2]
        known = {name: fields[name] for name in ("boxes", "keypoints")}
        dry = decide(plan, row, {"image": size}, items=known)
        assert dry == plain.records()
        cropped += sum(entry["record"]["applied"] for entry in dry if "applied" in entry["record"])
    assert cropped > 30
    with pytest.raises(UsageError, match=r"iou_crop at .* reads boxes: give the records of"):
        decide(plan, row, {"image": size}, {"boxes": 3, "keypoints": 1})


def test_what_a_decision_looks_at_stays_where_only_the_image_is_kept():
    plan = bound(
        lambda sample: {
            "image": ops.resize(ops.iou_crop(sample.image, sample.boxes)[0], size=(8, 8))
        }
    )
    assert plan.fields == ("image", "boxes")
    fields = sample(5, count=4)
    (drawn,) = [d for d in plan.decisions if d.op.draws_from]
    assert drawn.items is not None
    for seed in range(20):
        engine = Interpreter(plan)
        run(engine, Row(0, seed, 0), fields)
        height, width = fields["image"].shape[:2]
        corners = unpack_items(BOXES, fields["boxes"])["xyxy"]
        told = ops.IouCrop().sample(height, width, id=seed, items=corners)
        assert engine.records()[0]["record"] == told


@kernel
def reads_the_corner(params, record, height, width):
    return 0, 0, 1, 1


@dataclass(frozen=True)
class ReadingCrop(ops.IouCrop):
    """Would tell a decoder what it reads, if it could decide from sizes."""

    reads: ClassVar[Any] = staticmethod(reads_the_corner)


def test_a_picture_is_decoded_whole_where_boxes_say_what_is_read():
    both = bound(
        lambda s: {
            "a": ops.resize(ReadingCrop()(s.image, s.boxes)[0], size=(8, 8)),
            "b": ops.unlinked(ops.center_crop(s.mask, size=8)),
        }
    )
    assert list(windowed(both)) == ["mask"]


def test_a_decision_from_boxes_needs_image_and_boxes():
    def alone(sample):
        return {"boxes": ops.iou_crop(sample.boxes)}

    def without(sample):
        return {"image": ops.resize(ops.iou_crop(sample.image), size=(8, 8))}

    def twice(sample):
        image, _, _ = ops.iou_crop(sample.image, sample.boxes, sample.free)
        return {"image": ops.resize(image, size=(8, 8))}

    for define in (alone, without, twice):
        refused(define, r"iou_crop decides from boxes: call it with an image or mask first, and")

    def converted(sample):
        boxes = ops.convert_boxes(sample.boxes, form="xywh")
        return {"image": ops.resize(ops.iou_crop(sample.image, boxes)[0], size=(8, 8))}

    refused(
        converted, "iou_crop: expected boxes as xyxy, got xywh: convert them after all other ops"
    )

    def elsewhere(sample):
        image = ops.resize(sample.image, size=(32, 32))
        return {"image": ops.resize(ops.iou_crop(image, sample.boxes)[0], size=(8, 8))}

    refused(elsewhere, "these boxes do not count in pixels of the size that it has there")
