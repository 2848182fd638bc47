"""Resizes that keep the ratio: sizes as torchvision computes them, Pillow's pixels, true bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker.ops import (
    ParameterError,
    RandomShortSideScale,
    ResizeLong,
    ResizeShort,
    State,
    StateError,
    center_crop,
    resize_short,
    rot90,
    to_float,
)
from stoker.ops.kernels.resample import scratch_bytes
from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.binding.joins import join_states
from stoker.pipeline.planning.planner import bind, shorten
from stoker.protocol.errors import BuildError, SampleError

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
side = st.integers(1, 90)
sides = st.integers(1, 65535)


def torchvision_size(height, width, size, max_size):
    """torchvision 0.2x, functional._compute_resized_output_size, in its floating point."""
    short, long = (width, height) if width <= height else (height, width)
    if size is None:
        size = min(max_size, int(max_size * short / long))
    new_short, new_long = size, int(size * long / short)
    if new_long > max_size:
        new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


@settings(max_examples=300, deadline=None)
@given(sides, sides, st.integers(1, 4000), st.integers(0, 4000))
def test_sizes_are_torchvisions(as_record, height, width, size, more):
    op = ResizeShort(size, size + more)
    params = as_record(op.parameters, op.params())
    got = op.out_size(params, as_record(op.record), height, width)
    assert got == tuple(max(s, 1) for s in torchvision_size(height, width, size, size + more))
    long = ResizeLong(size)
    params = as_record(long.parameters, long.params())
    got = long.out_size(params, as_record(long.record), height, width)
    short = max(int(size * min(height, width) / max(height, width)), 1)
    assert got == ((size, short) if height >= width else (short, size))


@settings(max_examples=60, deadline=None)
@given(side, side, st.integers(1, 60), st.integers(0, 60), st.sampled_from(list(FILTERS)))
def test_pixels_are_pillows(run_op, noise, height, width, size, more, name):
    image, mask = noise((height, width, 3)), noise((height, width), dtype="uint8")
    values = [("image", image), ("mask", mask)]
    ops = [
        ResizeShort(size, size + more, name),
        ResizeLong(size, name),
        RandomShortSideScale((max(size // 2, 1), size), size + more, name),
    ]
    for op in ops:
        done = run_op(op, values, height, bound=(height + 7, width + 2))
        target = done.outputs[0].shape[1::-1]
        expected = Image.fromarray(image).resize(target, FILTERS[name])
        assert (done.outputs[0] == np.asarray(expected)).all()
        expected = Image.fromarray(mask).resize(target, Image.Resampling.NEAREST)
        assert (done.outputs[1] == np.asarray(expected)).all()


@settings(max_examples=300, deadline=None)
@given(st.data(), st.booleans())
def test_bounds_hold_for_every_size_below_them(as_record, data, cubic):
    """Without pixels: sizes and scratch that a row can need are within what was declared."""
    name = "bicubic" if cubic else "bilinear"
    most = data.draw(st.integers(1, 3000)), data.draw(st.integers(1, 3000))
    height, width = data.draw(st.integers(1, most[0])), data.draw(st.integers(1, most[1]))
    size = data.draw(st.integers(1, 700))
    max_size = data.draw(st.integers(size, 2000))
    low = data.draw(st.integers(1, size))
    drawn = data.draw(st.integers(low, size))
    state = State("image", "uint8", (None, None, 3), (*most, 3))
    short = ResizeShort(drawn, max_size)
    params = as_record(short.parameters, short.params())
    record = as_record(short.record)
    after = short.out_size(params, record, height, width)
    long = ResizeLong(size, name)
    record_long = long.out_size(as_record(long.parameters, long.params()), record, height, width)
    for op, out in (
        (ResizeShort(drawn, max_size, name), after),
        (RandomShortSideScale((low, size), max_size, name), after),
        (long, record_long),
    ):
        (declared,), need = op.declare((state,))
        assert out[0] <= declared.bound[0]
        assert out[1] <= declared.bound[1]
        assert scratch_bytes(height, width, 3, *out, int(cubic)) <= need


def test_states():
    image = State("image", "uint8", (None, None, 3), (40, 9000, 3))
    fixed = State.fixed("mask", "uint8", (100, 150))
    assert str(ResizeShort(50, 600).declare((image,))[0][0]) == "image uint8[<=600x<=600x3]"
    assert str(ResizeShort(5, 600).declare((image,))[0][0]) == "image uint8[<=200x<=600x3]"
    assert str(ResizeShort(50, 600).declare((fixed,))[0][0]) == "mask uint8[50x75]"
    assert str(ResizeLong(50).declare((image,))[0][0]) == "image uint8[<=50x<=50x3]"
    assert str(ResizeLong(50).declare((fixed,))[0][0]) == "mask uint8[33x50]"
    scale = RandomShortSideScale((50, 60), 70)
    assert str(scale.declare((fixed,))[0][0]) == "mask uint8[<=70x<=70]"
    scale = RandomShortSideScale((50, 50), 70)
    assert str(scale.declare((fixed,))[0][0]) == "mask uint8[46x70]"


def test_every_length_is_drawn(run_op):
    op = RandomShortSideScale((10, 14), 40)
    records = [run_op.draw(op, k, 100, 200) for k in range(1500)]
    counts = np.bincount([int(r["size"]) for r in records])
    assert np.abs(counts[10:] / 1500 - 0.2).max() < 0.05
    assert len(counts) == 15
    assert all((r["height"], r["width"]) == (r["size"], 2 * r["size"]) for r in records)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ResizeShort(9, 8),
            "resize_short: expected max_size to be an integer from 9 to 65535, got 8",
        ),
        (
            lambda: ResizeShort((9, 9), 10),
            "resize_short: expected size to be an integer from 1 to 65535, got (9, 9)",
        ),
        (
            lambda: ResizeLong(0),
            "resize_long: expected size to be an integer from 1 to 65535, got 0",
        ),
        (
            lambda: RandomShortSideScale((9, 8), 10),
            "random_short_side_scale: expected sizes to be (low, high), integers with 1 <= low <= "
            "high <= 65535, got (9, 8)",
        ),
        (
            lambda: RandomShortSideScale(9, 10),
            "random_short_side_scale: expected sizes to be (low, high), integers with 1 <= low <= "
            "high <= 65535, got 9",
        ),
        (
            lambda: RandomShortSideScale((4, 9), None),
            "random_short_side_scale: expected max_size to be an integer from 1 to 65535, got None",
        ),
        (
            lambda: RandomShortSideScale((4, 9), 8),
            "random_short_side_scale: expected max_size to be an integer from 9 to 65535, got 8",
        ),
    ],
)
def test_messages(make, message):
    with pytest.raises(ParameterError) as caught:
        make()
    assert str(caught.value) == message


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=6),
    st.integers(1, 200),
)
def test_the_sizes_of_a_dataset_bound_the_result_without_a_maximum(as_record, found, size):
    """`shortest` is the shortest side of all samples, so none of their results leaves the bound."""
    tall, wide = (max(sides) for sides in zip(*found, strict=True))
    least = min(map(min, found))
    state = State("image", "uint8", (None, None, 3), (tall, wide, 3), shortest=least)
    op = ResizeShort(size)
    ((after,), _) = op.declare((state,))
    assert after.shortest == 0
    params = as_record(op.parameters, op.params())
    for height, width in found:
        got = op.out_size(params, as_record(op.record), height, width)
        assert got == fitted(height, width, size)
        assert got[0] <= after.bound[0]
        assert got[1] <= after.bound[1]


def fitted(height, width, size):
    short = min(height, width)
    return max(height * size // short, 1), max(width * size // short, 1)


def test_what_bounds_nothing_needs_a_maximum():
    state = State("image", "uint8", (None, None, 3), (400, 500, 3))
    with pytest.raises(
        StateError, match=r"expected max_size, because the longer side .*max_size=584"
    ):
        ResizeShort(146).declare((state,))
    thin = State("image", "uint8", (None, None, 3), (400, 500, 3), shortest=1)
    with pytest.raises(StateError, match=r"sides from 1 pixels.*could get 73000 of at most 65535"):
        ResizeShort(146).declare((thin,))
    fixed = State.fixed("image", "uint8", (30, 60, 3))
    assert ResizeShort(15).declare((fixed,))[0][0].shape == (15, 30, 3)


def test_a_sample_with_a_shorter_side_than_declared_is_an_error(noise):
    """Memory is planned for the sizes that the dataset declares, so no other size may be read."""

    @pipeline
    def val(sample):
        image = resize_short(sample.image, size=30)
        return {"image": center_crop(image, size=24)}

    image = noise((40, 90, 3))
    state = State("image", "uint8", (None, None, 3), (90, 90, 3), shortest=40)
    outputs = [np.zeros((24, 24, 3), np.uint8)]
    written = bind(val.graph(), {"image": state})
    for plan in (written, shorten(written)):
        for engine in (Interpreter(plan), compile_plan(plan)):
            engine.run(Row(1, 2, 0), [image], outputs)
            with pytest.raises(SampleError, match="this sample's size is 39x90"):
                engine.run(Row(1, 2, 0), [image[:39].copy()], outputs)


VARIED = State("image", "uint8", (None, None, 3), (400, 500, 3), shortest=300)


def test_shortest_is_forgotten_where_a_size_changes():
    """Else the planned memory would be too small for a later resize."""

    @pipeline
    def twice(sample):
        image = resize_short(sample.image, size=40, max_size=200)
        return {"image": center_crop(resize_short(image, size=24), size=24)}

    @pipeline
    def turned(sample):
        return {"image": center_crop(resize_short(rot90(sample.image), size=24), size=24)}

    for made in (twice, turned):
        with pytest.raises(BuildError, match="expected max_size, because the longer side"):
            bind(made.graph(), {"image": VARIED})

    @pipeline
    def colored(sample):
        return {"image": center_crop(resize_short(to_float(sample.image), size=24), size=24)}

    bind(colored.graph(), {"image": VARIED})


def test_a_join_has_the_shorter_side_of_both_branches():
    small = State.fixed("image", "uint8", (40, 60, 3))
    unknown = State("image", "uint8", (None, None, 3), (90, 90, 3))
    for one, other, shortest in (
        (VARIED, small, 40),
        (VARIED, VARIED, 300),
        (VARIED, unknown, 0),
        (small, State.fixed("image", "uint8", (40, 30, 3)), 30),
        (small, small, 0),
    ):
        assert join_states(one, other).shortest == join_states(other, one).shortest == shortest
