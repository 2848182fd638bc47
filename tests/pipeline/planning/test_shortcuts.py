"""A plan with shortcuts gives the bytes of the pipeline as it was written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from skimage import data

from stoker import ops
from stoker.ops.contract.states import UNKNOWN, State
from stoker.ops.geometry.resize_center_crop import ResizeCenterCrop
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind, shorten
from stoker.protocol.item_fields import ItemField
from stoker.rng.row import Row

BOUND = (300, 300)
BOXES = (ItemField("xyxy", "float32", 4),)
STATES = {
    "image": State("image", "uint8", (None, None, 3), (*BOUND, 3)),
    "floats": State("image", "float32", (None, None, 3), (*BOUND, 3), scale=UNKNOWN),
    "mask": State("mask", "uint16", (None, None), BOUND),
    "boxes": State.ragged("boxes", BOXES, 9, "image"),
}
RESIZES = {
    "resize": lambda *v, how: ops.resize(*v, size=(70, 90), interpolation=how),
    "resize_short": lambda *v, how: ops.resize_short(*v, size=64, max_size=140, interpolation=how),
    "resize_long": lambda *v, how: ops.resize_long(*v, size=120, interpolation=how),
}


def joint(resize, how, size):
    @pipeline
    def both(sample):
        values = RESIZES[resize](sample.image, sample.floats, sample.mask, how=how)
        values = ops.center_crop(*values, size=size, fill=(9, 8, 7), mask_fill=65535)
        return dict(zip(("image", "floats", "mask"), values, strict=True))

    return both


def run(engine, plan, row, fields):
    outputs = [np.zeros(output.shape, output.dtype) for output in plan.outputs]
    engine.run(row, [fields[name] for name in plan.fields], outputs)
    return outputs


@pytest.fixture(scope="module")
def compiled():
    """Executors by what they compute, made once."""
    made: dict[tuple, tuple] = {}

    def get(*key):
        if key not in made:
            graph = joint(*key).graph()
            short = shorten(bind(graph, STATES))
            assert [d.op.name for d in short.decisions] == ["resize_center_crop"]
            made[key] = (compile_plan(short), Interpreter(bind(graph, STATES)))
        return made[key]

    return get


sides = st.integers(1, 300)


@settings(max_examples=120, deadline=None)
@given(
    resize=st.sampled_from(list(RESIZES)),
    how=st.sampled_from(["nearest", "bilinear", "bicubic", "lanczos", "area"]),
    size=st.sampled_from([(50, 50), (33, 88), (200, 60), (1, 1), (180, 190)]),
    height=sides,
    width=sides,
)
@example(resize="resize", how="bicubic", size=(50, 50), height=70, width=33)  # keeps the height
@example(resize="resize", how="lanczos", size=(50, 50), height=33, width=90)  # keeps the width
@example(resize="resize", how="area", size=(50, 50), height=70, width=90)  # keeps both
def test_a_resize_and_a_center_crop(compiled, resize, how, size, height, width):
    photo = data.astronaut()[100 : 100 + height, 50 : 50 + width]
    fields = {
        "image": np.ascontiguousarray(photo),
        "floats": np.float32(photo[::-1]) / np.float32(100),
        "mask": (np.arange(height * width, dtype=np.uint32) * 7919 % 65536)
        .astype(np.uint16)
        .reshape(height, width),
    }
    short, whole = compiled(resize, how, size)
    row = Row(3, 1, 0, 0, 0)
    found, expected = (run(e, e.plan, row, fields) for e in (short, whole))
    for one, other in zip(found, expected, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("how", ["nearest", "bilinear", "bicubic", "lanczos", "area"])
@pytest.mark.parametrize("kind", ["image", "mask"])
def test_it_reads_nothing_outside_of_its_box(how, kind):
    rng, parts = np.random.default_rng(3), []
    for trial in range(60):
        by, size = list(RESIZES)[trial % 3], tuple(int(s) for s in rng.integers(1, 90, 2))
        op = ResizeCenterCrop(by, (60, 60) if by == "resize" else 60, 100, how, size, 3, 4)
        height, width = (int(side) for side in rng.integers(1, 260, 2))
        shape = (height, width, 3) if kind == "image" else (height, width)
        state = State.fixed(kind, "uint8", shape)
        (after,), scratch_bytes = op.declare((state,))
        params, record = op.params(), np.zeros((), op.record)[()]
        top, left, tall, wide = op.reads(params, record, height, width)
        assert 0 <= top < top + tall <= height
        assert 0 <= left < left + wide <= width
        parts.append(tall * wide / (height * width))
        first, second = (rng.integers(0, 256, shape, np.uint8) for _ in range(2))
        box = (slice(top, top + tall), slice(left, left + wide))
        second[box] = first[box]
        results = []
        for src in (first, second):
            dst = np.zeros(after.shape, np.uint8)
            op.kernels[kind].plain(src, dst, params, record, np.zeros(scratch_bytes, np.uint8))
            results.append(dst)
        assert np.array_equal(*results)
    assert min(parts) < 0.5


def names(body, states=STATES):
    plan = shorten(bind(pipeline(body).graph(), states))
    return [d.op.name for d in plan.decisions]


def test_where_the_resized_image_is_needed_it_stays():
    def output(sample):
        small = ops.resize(sample.image, size=(60, 60))
        return {"a": small, "b": ops.center_crop(small, size=20)}

    def twice(sample):
        small = ops.resize(sample.image, size=(60, 60))
        return {"a": ops.center_crop(small, size=30), "b": ops.center_crop(small, size=20)}

    def measured(sample):
        small = ops.resize(sample.image, size=(60, 60))
        image = ops.center_crop(small, size=30)
        if small.mean() > 3:
            image = ops.invert(image, p=1)
        return {"image": image}

    def with_boxes(sample):
        image, boxes = ops.resize(sample.image, sample.boxes, size=(60, 60))
        image, boxes = ops.center_crop(image, boxes, size=30)
        return {"image": image, "boxes": boxes}

    def two_resizes(sample):
        image = ops.resize(sample.image, size=(60, 60))
        mask = ops.resize(sample.mask, size=(60, 60), interpolation="nearest")
        image, mask = ops.center_crop(image, mask, size=30)
        return {"image": image, "mask": mask}

    assert names(output) == ["resize", "center_crop"]
    assert names(twice) == ["resize", "center_crop", "center_crop"]
    assert names(measured) == ["resize", "center_crop", "invert"]
    assert names(with_boxes) == ["resize", "center_crop"]
    assert names(two_resizes).count("resize_center_crop") == 0


def test_what_stands_round_them_stays_and_so_does_the_identity():
    @pipeline
    def train(sample):
        image = ops.horizontal_flip(sample.image, p=0.5)
        image = ops.resize_short(image, size=60, max_size=200)
        image = ops.center_crop(image, size=50)
        mask = ops.unlinked(ops.resize(sample.mask, size=(9, 9)))
        return {"image": ops.normalize(image), "mask": mask}

    graph = train.graph()
    plan = shorten(bind(graph, STATES))
    assert sorted(d.op.name for d in plan.decisions) == [
        "horizontal_flip",
        "normalize",
        "resize",
        "resize_center_crop",
    ]
    assert plan.pipeline_id == pipeline_id(graph) == bind(graph, STATES).pipeline_id
    assert plan.outputs == bind(graph, STATES).outputs


def test_no_user_finds_it_among_the_ops():
    assert ResizeCenterCrop.name not in ops.registered()
    assert not hasattr(ops, "ResizeCenterCrop")
