"""crop_non_empty_mask: the rule in NumPy, both engines, what a window contains, and mistakes."""

import numpy as np
import pytest

from stoker import ops
from stoker.jit import compiled
from stoker.ops import CropNonEmptyMask, RandomCrop
from stoker.ops.bases.marked import count_marked, find_marked
from stoker.ops.contract.states import State
from stoker.ops.testing import structured
from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import UsageError
from stoker.rng.draws import integers
from stoker.rng.streams import machine_key, make_key, stream_key

CHOICES = [
    CropNonEmptyMask(16),
    CropNonEmptyMask((9, 30), ignore=(0, 2)),
    CropNonEmptyMask((70, 12), ignore=()),
    CropNonEmptyMask((5, 90), ignore=[3, 0, 3]),
]
DTYPES = ("uint8", "uint16", "int32")


def masks(seed, dtype="uint8"):
    """A mask of up to 60x80 pixels: mostly 0, some of classes 1 to 3; all 0 for every fourth."""
    noise = np.random.default_rng(seed)
    height, width = noise.integers(1, 60), noise.integers(1, 80)
    rare = noise.random((height, width)) < (0.01 if seed % 4 else 0)
    return np.where(rare, noise.integers(1, 4, (height, width)), 0).astype(dtype)


def draw(op, seed, mask, run=None):
    key = make_key(3, stream_key(op.name), seed, 1)
    record = structured(op.record)
    params = structured(op.parameters, op.params())
    (run or op.draw)(key if run is None else machine_key(key), params, *mask.shape, record, mask)
    return key, record.tolist()


def oracle(op, key, mask):
    """The rule with NumPy's list of marked pixels, with the draws that the documentation names."""
    found = np.argwhere(~np.isin(mask, op.ignore))
    pixel = found[integers(key, 0, len(found))] if len(found) else (-1, -1)
    start = []
    for axis in range(2):
        side, window = mask.shape[axis], op.size[axis]
        spare = side - window
        if len(found) and spare >= 0:
            start.append(int(np.clip(pixel[axis] - integers(key, 1 + axis, window), 0, spare)))
        else:
            start.append(integers(key, 3 + axis, abs(spare) + 1) + min(spare, 0))
    return (*start, int(pixel[0]), int(pixel[1]))


@pytest.mark.parametrize("op", CHOICES)
def test_the_rule_in_both_engines(op):
    fast, empty = compiled(op.draw), 0
    for seed in range(120):
        mask = masks(seed, DTYPES[seed % 3])
        key, record = draw(op, seed, mask)
        assert record == oracle(op, key, mask), seed
        assert draw(op, seed, mask, fast)[1] == record, seed
        empty += record[2] < 0
    assert (empty >= 30) == (0 in op.ignore)


@pytest.mark.parametrize("op", CHOICES)
def test_every_window_contains_a_marked_pixel(op):
    for seed in range(120):
        mask = masks(seed, "int32")
        marked = ~np.isin(mask, op.ignore)
        _, (top, left, row, column) = draw(op, seed, mask)
        height, width = op.size
        seen = marked[max(top, 0) : top + height, max(left, 0) : left + width]
        assert seen.any() == marked.any(), seed
        if marked.any():
            assert marked[row, column]
            assert top <= row < top + height
            assert left <= column < left + width
        for start, side, window in zip((top, left), mask.shape, (height, width), strict=True):
            assert min(side - window, 0) <= start <= max(side - window, 0)


def test_without_marked_pixels_windows_are_spread_as_those_of_random_crop():
    mask, seen = np.full((10, 12), 7, np.uint8), {}
    op = CropNonEmptyMask(9, ignore=7)
    for seed in range(1600):
        _, (top, left, row, column) = draw(op, seed, mask)
        assert (row, column) == (-1, -1)
        seen[top, left] = seen.get((top, left), 0) + 1
    assert set(seen) == {(y, x) for y in range(2) for x in range(4)}
    assert min(seen.values()) > 150


def test_marked_pixels_are_equally_likely():
    mask = np.zeros((40, 50), np.uint16)
    mask[3, 4] = mask[20, 20] = mask[39, 49] = mask[20, 21] = 900
    seen = {}
    for seed in range(2000):
        _, (top, left, row, column) = draw(CropNonEmptyMask(8), seed, mask)
        seen.setdefault((row, column), set()).add((top, left))
    assert set(seen) == {(3, 4), (20, 20), (39, 49), (20, 21)}
    assert len(seen[20, 20]) > 60, "all 64 places of the window but few"
    assert len(seen[39, 49]) == 1, "the window is moved into the image"


@pytest.mark.parametrize("dtype", DTYPES)
def test_pixels_are_counted_and_found_alike(noise, dtype):
    """Across blocks of the compiled search, for every rank of a small mask."""
    count, find = compiled(count_marked), compiled(find_marked)
    for shape, classes in (((3, 5), 3), ((1, 1025), 2), ((70, 61), 200), ((64, 64), 1)):
        mask = noise(shape, 5, dtype, classes)
        for ignore in ([], [0], [1, 0], [199]):
            values = np.array([*ignore, 0, 9], np.int32)
            marked = np.flatnonzero(~np.isin(mask, ignore))
            found = count_marked(mask, values, len(ignore)), count(mask, values, len(ignore))
            assert found == (len(marked), len(marked))
            ranks = range(0, len(marked), max(len(marked) // 40, 1))
            for rank in (*ranks, *([len(marked) - 1] if len(marked) else [])):
                assert find_marked(mask, values, len(ignore), rank) == marked[rank]
                assert find(mask, values, len(ignore), rank) == marked[rank]


@pipeline
def train(sample):
    image, mask = ops.crop_non_empty_mask(
        sample.image, sample.mask, size=(24, 20), ignore=(0, 255), fill=9, mask_fill=255
    )
    return {"image": image, "mask": mask}


def states(dtype):
    """An image and a mask of up to 60x80 pixels."""
    return {
        "image": State("image", "uint8", (None, None, 3), (60, 80, 3)),
        "mask": State("mask", dtype, (None, None), (60, 80)),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_a_pipeline_both_engines_cut_image_and_mask_alike(dtype):
    plan = bind(train.graph(), states(dtype))
    fast, plain = compile_plan(plan), Interpreter(plan)
    for number in range(8):
        mask = masks(number, dtype)
        image = np.ascontiguousarray(np.broadcast_to(mask[..., None], (*mask.shape, 3)), np.uint8)
        given = {"image": image, "mask": mask}
        outs = []
        for engine in (fast, plain):
            made = {o.name: np.full(o.shape, 5, o.dtype) for o in plan.outputs}
            row = Row(seed=1, id=number, epoch=0)
            engine.run(row, [given[name] for name in plan.fields], list(made.values()))
            outs.append(made)
        for name, value in outs[0].items():
            assert np.array_equal(value, outs[1][name]), name
        inside = outs[0]["mask"] != 255
        assert (outs[0]["image"][inside] == outs[0]["mask"][inside][:, None]).all()
        assert (outs[0]["image"][~inside] == 9).all()
        marked = ~np.isin(outs[0]["mask"], (0, 255))
        assert marked.any() == (mask > 0).any()


def test_the_first_mask_decides_and_others_follow(noise):
    def both(sample):
        values = ops.crop_non_empty_mask(sample.image, sample.mask, sample.other, size=8)
        return dict(zip(("image", "mask", "other"), values, strict=True))

    mask, other = np.zeros((40, 50), np.uint8), noise((40, 50), 3)
    mask[30, 40] = 1
    given = {"image": noise((40, 50, 3)), "mask": mask, "other": other}
    made = pipeline(both)(given, kinds={"mask": "mask", "other": "mask"}, id=4)
    assert made["mask"].max() == 1
    (y,), (x,) = np.nonzero(made["mask"])
    assert other[30, 40] == made["other"][y, x]


def test_a_signed_mask_may_have_an_ignored_class_below_0():
    def cut(sample):
        return {"image": ops.crop_non_empty_mask(sample.image, sample.mask, size=8, ignore=-1)[0]}

    assert bind(pipeline(cut).graph(), states("int32"))


def test_parameters_alone_are_not_known_without_the_mask():
    plan = bind(train.graph(), states("uint8"))
    sizes = {"image": (40, 50), "mask": (40, 50)}
    with pytest.raises(UsageError, match=r"crop_non_empty_mask at .* reads the pixels of a mask"):
        decide(plan, Row(0, 0, 0), sizes=sizes)


def test_sample_takes_a_mask():
    mask = masks(5)
    op = CropNonEmptyMask(16)
    drawn = op.sample(*mask.shape, id=7, items=mask)
    assert set(drawn) == {"top", "left", "row", "column"}
    assert drawn == op.sample(*mask.shape, id=7, items=mask.astype("int32"))
    with pytest.raises(UsageError, match="expected items, the mask it decides from"):
        op.sample(*mask.shape)
    for bad in (mask[1:], mask.astype(np.float32), mask[..., None]):
        with pytest.raises(UsageError, match="expected items to be a mask of height and width"):
            op.sample(*mask.shape, items=bad)


def test_random_crop_of_the_same_place_cuts_the_same(run_op, noise):
    """Both share their kernels: the window is cut as random_crop does."""
    image = noise((30, 40, 3))
    ours = structured(CropNonEmptyMask.record, np.array((-3, 25, 1, 1), CropNonEmptyMask.record))
    other = structured(RandomCrop.record, np.array((-3, 25), RandomCrop.record))
    made = run_op(CropNonEmptyMask(20, fill=7), [("image", image)], record=ours).outputs[0]
    assert np.array_equal(
        made, run_op(RandomCrop(20, fill=7), [("image", image)], record=other).outputs[0]
    )
