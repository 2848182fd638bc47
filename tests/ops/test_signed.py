"""Images of int16: which ops take them, that their numbers survive, and what all others answer."""

import numpy as np
import pytest
from PIL import Image

from stoker import ops
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import State, StateError, make, registered
from stoker.ops.contract.registry import batch_ops

IMAGE = State.fixed("image", "int16", (40, 56, 3))
MIXES = (
    ops.Cutmix(), ops.Mosaic(), ops.Mixup(), ops.MosaicScaled(),
    ops.CopyPaste("semantic", sigma=2.0), ops.Stack(), ops.Blend((1.0, 2.0)),
    ops.RandomBlend(count=2),
)  # fmt: skip
NUMBERS = np.random.default_rng(3).integers(-32768, 32768, (40, 56, 2)).astype(np.int16)
NUMBERS[:20] = np.where(NUMBERS[:20] > 0, 32767, -32768)  # a filter overshoots


def every_op(examples):
    """An example of each op with a rule for images, for three channels."""
    for name, cls in registered().items():
        if "image" in cls.kernels:
            given = examples[name][-1].items()
            params = {key: v for key, v in given if key not in ("fill", "mean", "std")}
            yield make(name, params | ({"dtype": "float32"} if name == "cast" else {}))
    yield from MIXES


def test_ops_take_int16_or_name_window(examples):
    taken, with_levels = set(), set()
    for op in every_op(examples):
        try:
            if op.name in batch_ops():
                op.mixed(IMAGE)
            else:
                op.declare((IMAGE, IMAGE) if op.folds else (IMAGE,))
            taken.add(op.name)
        except StateError as error:
            said = str(error)
            assert f"{op.name} has no rule for image int16[40x56x3]: expected" in said
            assert "all ops.window(image, center=, width=) " in said
            if "and from_float after that" in said:
                with_levels.add(op.name)
    ops_ = list(every_op(examples))
    assert taken == {op.name for op in ops_ if "int16" in op.image_dtypes}
    of_levels = {op.name for op in ops_ if "float32" not in op.image_dtypes} - {"to_float"}
    assert with_levels == of_levels


@pytest.mark.parametrize("arithmetic", [COMPILED, PLAIN])
@pytest.mark.parametrize("name", ["nearest", "bicubic", "area"])
@pytest.mark.parametrize("size", [(20, 90), (60, 21), (40, 56)])
def test_a_resize_is_that_of_floats_rounded(run_op, name, size, arithmetic):
    op, given = ops.Resize(size, name), {"arithmetic": arithmetic}
    (found,) = run_op(op, [("image", NUMBERS)], **given).outputs
    (floats,) = run_op(op, [("image", NUMBERS.astype(np.float32))], **given).outputs
    assert found.dtype == np.int16
    assert np.array_equal(found, np.floor(floats.clip(-32768, 32767).astype(np.float64) + 0.5))
    if name == "bicubic":
        planes = [Image.fromarray(plane.astype("f4")) for plane in NUMBERS.transpose(2, 0, 1)]
        exact = np.stack([np.asarray(plane.resize(size[::-1], 3)) for plane in planes], -1)
        assert np.abs(found - exact.clip(-32768, 32767)).max() <= 0.52
    if size == NUMBERS.shape[:2]:
        assert np.array_equal(found, NUMBERS)


@pytest.mark.parametrize("arithmetic", [COMPILED, PLAIN])
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (ops.HorizontalFlip(p=1), NUMBERS[:, ::-1]),
        (ops.Rot90(p=1, turns=1), np.rot90(NUMBERS)),
        (ops.Transpose(p=1), NUMBERS.transpose(1, 0, 2)),
        (ops.Crop((20, 30), 25, 40, fill=-1024),
         np.pad(NUMBERS, ((0, 5), (0, 14), (0, 0)), constant_values=-1024)[25:, 40:]),
        (ops.Pad(3, fill=(-2000, 400)),
         np.stack([np.pad(NUMBERS[..., n], 3, constant_values=v) for n, v in
                   enumerate((-2000, 400))], -1)),
        (ops.Pad(9, mode="reflect"), np.pad(NUMBERS, ((9, 9), (9, 9), (0, 0)), mode="reflect")),
        (ops.Layout(), NUMBERS.transpose(2, 0, 1)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_ops_that_move_pixels_keep_every_bit(run_op, op, expected, arithmetic):
    (found,) = run_op(op, [("image", NUMBERS)], arithmetic=arithmetic).outputs
    assert found.dtype == np.int16
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("arithmetic", [COMPILED, PLAIN])
@pytest.mark.parametrize(
    "op", [ops.PadToSize, ops.ZoomOut, ops.RandomCrop, ops.IouCrop, ops.BboxSafeRandomCrop]
)
def test_random_cuts_are_those_of_uint16(run_op, op, arithmetic):
    """The same decision for uint16 with an offset of 32768, in the fill as well."""
    size = {ops.PadToSize: {"size": 70}, ops.RandomCrop: {"size": 50, "padding": 9}}.get(op, {})
    size |= {"p": 1} if op is ops.ZoomOut else {}
    fills = op not in (ops.IouCrop, ops.BboxSafeRandomCrop)
    low, high = ({"fill": -1024}, {"fill": 31744}) if fills else ({}, {})
    levels = (NUMBERS.astype(np.int32) + 32768).astype(np.uint16)
    given = {"arithmetic": arithmetic}
    (found,) = run_op(op(**size, **low), [("image", NUMBERS)], 5, **given).outputs
    (expected,) = run_op(op(**size, **high), [("image", levels)], 5, **given).outputs
    assert found.dtype == np.int16
    assert np.array_equal(found.astype(np.int32) + 32768, expected)


@pytest.mark.parametrize("op", [ops.Erase, ops.CoarseDropout, ops.GridMask])
def test_holes_have_their_fill(run_op, op):
    (found,) = run_op(op(fill=-1024, p=1), [("image", NUMBERS // 2)]).outputs
    holes = found != NUMBERS // 2
    assert holes.any()
    assert set(np.unique(found[holes])) == {-1024}


@pytest.mark.parametrize("arithmetic", [COMPILED, PLAIN])
@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_normalize_counts_in_the_numbers_of_the_image(run_op, layout, dtype, arithmetic):
    op = ops.Normalize((40, -500), (400, 1500), dtype, layout)
    (found,) = run_op(op, [("image", NUMBERS)], arithmetic=arithmetic).outputs
    found = found.view(np.float16) if dtype == "float16" else found
    expected = (NUMBERS.astype(np.float64) - (40, -500)) / (400, 1500)
    expected = expected.transpose(2, 0, 1) if layout == "CHW" else expected
    close = {"float32": 1e-5, "float16": 0.05}[dtype]
    np.testing.assert_allclose(found, expected, atol=close)


def test_a_fill_is_a_number_of_int16():
    assert ops.Pad(2, fill=-1024).declare((IMAGE,))[0][0].dtype == "int16"
