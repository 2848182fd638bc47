"""Images of uint16: which ops take them, that their bits survive, and what all others answer."""

import cv2
import numpy as np
import pytest
from PIL import Image

from stoker import ops
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import ParameterError, State, StateError, make, registered
from stoker.ops.bases.batch_op import Mixed
from stoker.ops.contract.registry import batch_ops, folds
from stoker.ops.kernels.means import Tools

IMAGE = State.fixed("image", "uint16", (40, 56, 3))
EVERY = np.arange(65536, dtype=np.uint16).reshape(128, 512, 1)
MIXES = (
    ops.Cutmix(),
    ops.Mosaic(),
    ops.Mixup(),
    ops.MosaicScaled(),
    ops.CopyPaste("semantic", sigma=2.0),
    ops.Stack(),
    ops.Blend((1.0, 2.0)),
    ops.RandomBlend(count=2),
)


def every_op(examples):
    """An example of each op with a rule for images, for three channels."""
    for name, cls in registered().items():
        if "image" in cls.kernels:
            given = examples[name][-1].items()
            params = {key: v for key, v in given if key not in ("fill", "mean", "std")}
            yield make(name, params | ({"dtype": "float32"} if name == "cast" else {}))
    yield from MIXES


def declare(op, state):
    if op.name in batch_ops():
        op.mixed(state)
    else:
        op.declare((state, state) if op.folds else (state,))


def takes_floats(op):
    try:
        declare(op, State.fixed("image", "float32", IMAGE.bound))
    except StateError:
        return False
    return True


def test_ops_take_uint16_or_name_to_float(examples):
    taken = set()
    for op in every_op(examples):
        try:
            declare(op, IMAGE)
            taken.add(op.name)
        except StateError as error:
            said = str(error)
            assert f"{op.name} has no rule for image uint16[40x56x3]: expected" in said
            assert f"Call to_float before {op.name}" in said
            assert ("and from_float after that" in said) != takes_floats(op)
    assert taken == {op.name for op in every_op(examples) if "uint16" in op.image_dtypes}
    assert {op.name for op in MIXES} == {*batch_ops(), *folds()}


@pytest.mark.parametrize("name", ["nearest", "bilinear", "bicubic", "lanczos", "area"])
@pytest.mark.parametrize("size", [(20, 90), (60, 21), (40, 56)])
def test_a_resize_is_that_of_floats_rounded_to_levels(run_op, name, size):
    image = np.random.default_rng(3).integers(0, 65536, (40, 56, 2), np.uint16)
    image[:20] = np.where(image[:20] > 30000, 65535, 0)  # a filter overshoots
    (found,) = run_op(ops.Resize(size, name), [("image", image)]).outputs
    (floats,) = run_op(ops.Resize(size, name), [("image", image.astype(np.float32))]).outputs
    assert found.dtype == np.uint16
    assert np.array_equal(found, np.floor(np.clip(floats, 0, 65535).astype(np.float64) + 0.5))
    if name != "area":
        of_pillow = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}[name]
        planes = [
            Image.fromarray(plane.astype(np.float32)).resize(size[::-1], of_pillow)
            for plane in image.transpose(2, 0, 1)
        ]
        exact = np.clip(np.stack([np.asarray(plane) for plane in planes], -1), 0, 65535)
        assert np.abs(found - exact).max() <= 0.52
    if size == image.shape[:2]:
        assert np.array_equal(found, image)


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_normalize_counts_in_parts_of_65535(run_op, layout, dtype, channels):
    image = np.random.default_rng(4).integers(0, 65536, (9, 13, channels), np.uint16)
    mean, std = (0.485, 0.456, 0.406)[:channels], (0.229, 0.224, 0.225)[:channels]
    op = ops.Normalize(mean, std, dtype, layout)
    (found,) = run_op(op, [("image", image)]).outputs
    expected = (image / 65535 - np.array(mean)) / np.array(std)
    found = found.view(np.float16) if dtype == "float16" else found
    axes = (2, 0, 1) if layout == "CHW" else (0, 1, 2)
    np.testing.assert_allclose(
        found, expected.transpose(axes), atol=3e-3 if dtype == "float16" else 2e-6
    )


@pytest.mark.parametrize("arithmetic", [COMPILED, PLAIN])
def test_to_float_is_the_nearest_float_of_every_level(run_op, arithmetic):
    (found,) = run_op(ops.ToFloat(), [("image", EVERY)], arithmetic=arithmetic).outputs
    assert found.dtype == np.float32
    assert np.array_equal(found, (EVERY.astype(np.float64) / 65535).astype(np.float32))


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_moved_levels_are_those_of_numpy_and_opencv(run_op, channels):
    image = np.random.default_rng(channels).integers(0, 65536, (40, 56, channels), np.uint16)

    def run(op):
        return run_op(op, [("image", image)]).outputs[0]

    assert np.array_equal(run(ops.CenterCrop((20, 30))), image[10:30, 13:43])
    assert np.array_equal(run(ops.HorizontalFlip(p=1)), image[:, ::-1])
    assert np.array_equal(run(ops.Transpose(p=1)), image.transpose(1, 0, 2))
    assert np.array_equal(run(ops.Rot90(1, p=1)), np.rot90(image))
    assert np.array_equal(run(ops.Layout()), image.transpose(2, 0, 1))
    for mode, border in (("edge", cv2.BORDER_REPLICATE), ("reflect", cv2.BORDER_REFLECT_101)):
        padded = cv2.copyMakeBorder(image, 3, 4, 5, 6, border).reshape(47, 67, channels)
        assert np.array_equal(run(ops.Pad((3, 4, 5, 6), mode=mode)), padded)
    white = cv2.copyMakeBorder(image[..., :1], 3, 3, 3, 3, cv2.BORDER_CONSTANT, value=65535)
    assert np.array_equal(run(ops.Pad(3, fill=65535))[..., 0], white)


@pytest.mark.parametrize(("op", "count"), [(ops.Cutmix(), 2), (ops.Mosaic(), 4)])
def test_mixed_rows_hold_levels_of_their_sources(op, count):
    state = State.fixed("image", "uint16", (30, 44, 3))
    sources = [np.full((30, 44, 3), level, np.uint16) for level in (60000, 300, 256, 65535)]
    record = np.zeros(1, op.record)
    for name, value in op.sample(0, 0, id=5).items():
        record[name] = value
    op.resolve(record, (30, 44), [1, 2, 3][: count - 1])
    dst = np.zeros((30, 44, 3), np.uint16)
    op.mix(Mixed(state, sources[:count], dst), record[0], Tools(arithmetic=PLAIN))
    assert {60000, 300} <= set(np.unique(dst)) <= {60000, 300, 256, 65535}


@pytest.mark.parametrize(("fill", "most"), [(256, 255), (65535, 255), ((0, 0, 300), 255)])
def test_a_fill_must_fit_the_levels_of_the_image(fill, most):
    op = ops.Pad(1, fill=fill)
    op.declare((IMAGE,))
    with pytest.raises(StateError, match=f"fill to be integers from 0 to {most} for image uint8"):
        op.declare((State.fixed("image", "uint8", (8, 8, 3)),))
    with pytest.raises(StateError, match="integers from 0 to 65535 for image uint16"):
        ops.Pad(1, fill=0.5).declare((IMAGE,))
    with pytest.raises(ParameterError, match=r"an integer from 0 to 255 \(65535 for images of"):
        ops.Pad(1, fill=65536)
