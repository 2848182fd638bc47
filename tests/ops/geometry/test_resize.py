"""Resize against Pillow: every pixel of every filter, in all sizes."""

import importlib

import cv2
import numpy as np
import PIL
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import ParameterError, RandomResizedCrop, Resize

FILTERS = {
    "nearest": Image.NEAREST,
    "bilinear": Image.BILINEAR,
    "bicubic": Image.BICUBIC,
    "lanczos": Image.LANCZOS,
}
REACH = {"bilinear": 1, "bicubic": 2, "lanczos": 3}
side = st.integers(1, 80)
resample = importlib.import_module("stoker.ops.kernels.resample")
taps = importlib.import_module("stoker.ops.kernels.taps")
tables = importlib.import_module("stoker.ops.kernels.tap_tables")


def pillow(image: np.ndarray, size: tuple[int, int], name: str) -> np.ndarray:
    """Resize with Pillow, one axis a call, in the order of the numeric contract."""
    gray = image.ndim == 3 and image.shape[2] == 1
    done = Image.fromarray(image[..., 0] if gray else image)
    height, width = image.shape[:2]
    if resample.vertical_first(height, width, *size):
        done = done.resize((width, size[0]), FILTERS[name])
    done = done.resize((size[1], done.height), FILTERS[name])
    done = done.resize((size[1], size[0]), FILTERS[name])
    array = np.asarray(done)
    return array[..., None] if gray else array


def boxed(as_record, top, left, height, width):
    value = np.array((top, left, height, width), RandomResizedCrop.record)
    return as_record(RandomResizedCrop.record, value)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.tuples(side, side),
    st.tuples(side, side),
    st.sampled_from(list(FILTERS)),
    st.sampled_from([1, 3]),
    st.integers(0, 99),
)
def test_noise_is_as_pillow(run_op, noise, size_in, size, name, channels, seed):
    levels = noise((*size_in, channels), seed)
    for image in (levels, np.where(levels > 127, 255, 0).astype(np.uint8)):
        got = run_op(Resize(size, name), [("image", image)]).outputs[0]
        assert (got == pillow(image, size, name)).all()


def pillow_floats(image: np.ndarray, size: tuple[int, int], name: str) -> np.ndarray:
    """Resize the channels of a float32 image with Pillow, each by itself."""
    planes = [Image.fromarray(np.ascontiguousarray(plane)) for plane in image.transpose(2, 0, 1)]
    assert {plane.mode for plane in planes} == {"F"}
    return np.stack([np.asarray(p.resize(size[::-1], FILTERS[name])) for p in planes], -1)


def exact_weights(size_in: int, size_out: int, name: str) -> np.ndarray:
    """Return `(size_out, size_in) float64`: what each output pixel takes of each source pixel."""
    stretch = max(size_in / size_out, 1.0)
    centers = (np.arange(size_out)[:, None] + 0.5) * (size_in / size_out)
    x = np.abs(np.arange(size_in) + 0.5 - centers) / stretch
    if name == "bicubic":
        far = np.where(x < 2, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2, 0)
        weights = np.where(x < 1, 1.5 * x**3 - 2.5 * x**2 + 1, far)
    elif name == "lanczos":
        weights = np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)
    elif name == "area":
        ends, pixels = np.arange(size_out + 1) * (size_in / size_out), np.arange(size_in)
        weights = np.minimum(ends[1:, None], pixels + 1) - np.maximum(ends[:-1, None], pixels)
        weights = np.where(weights > 2.0**-20, weights, 0)
    else:
        weights = np.maximum(1 - x, 0)
    return weights / weights.sum(1, keepdims=True)


def exact_floats(
    image: np.ndarray, size: tuple[int, int], name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the resize in float64, and how far each sum in float32 may be off.

    A pass of n taps is off by up to (n + 2) 2**-24 of its sum of |weight * value|.
    """
    down, across = (exact_weights(*sizes, name) for sizes in zip(image.shape, size, strict=False))
    exact = np.einsum("yv,xu,vuc->yxc", down, across, np.float64(image), optimize=True)
    sums = np.einsum("yv,xu,vuc->yxc", abs(down), abs(across), abs(image), optimize=True)
    taps = sum((m.shape[0] != m.shape[1]) * ((m != 0).sum(1).max() + 3) for m in (down, across))
    positions = 1e-12 * np.abs(image).max()  # which are rounded in float64, here and there
    return exact, taps * 2.0**-24 * sums + positions


any_resize = given(
    st.tuples(side, side),
    st.tuples(side, side),
    st.sampled_from(["bilinear", "bicubic", "lanczos", "area"]),
    st.integers(1, 4),
    st.integers(0, 99),
)
"""Draws size_in, size, name, channels and seed."""


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@any_resize
def test_floats_are_within_their_bound(run_op, size_in, size, name, channels, seed):
    draw = np.random.default_rng(seed)
    image = draw.normal(0, 2.0 ** draw.integers(-20, 20), (*size_in, channels)).astype(np.float32)
    image[draw.random(image.shape) < 0.1] *= -0.0
    got = run_op(Resize(size, name), [("image", image)]).outputs[0]
    exact, bound = exact_floats(image, size, name)
    assert (np.abs(got - exact) <= bound).all()
    if name in FILTERS:
        expected = pillow_floats(image, size, name)
        assert (np.abs(expected - exact) <= bound).all(), "not Pillow's weights"


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@any_resize
def test_floats_compiled_are_the_plain_ones(run_op, size_in, size, name, channels, seed):
    image = np.random.default_rng(seed).normal(size=(*size_in, channels)).astype(np.float32)
    image.reshape(-1)[:: 1 + seed] = np.float32([np.nan, np.inf, -np.inf, 3e38])[seed % 4]
    op, values = Resize(size, name), [("image", image)]
    fast, slow = (
        run_op(op, values, arithmetic=arithmetic).outputs[0] for arithmetic in (COMPILED, PLAIN)
    )
    assert fast.tobytes() == slow.tobytes()


@pytest.mark.parametrize("size", [146, np.int64(146)])
def test_a_single_side_is_refused_because_torchvision_keeps_the_ratio(size):
    with pytest.raises(ParameterError) as caught:
        Resize(size)
    assert str(caught.value) == (
        "resize: expected size to be (height, width), got 146; for a square give (146, 146), and "
        "to scale the shorter side use resize_short(size=146)"
    )
    assert Resize([146, 7]).size == (146, 7)


def test_nearest_floats_are_pillows(run_op):
    image = np.random.default_rng(5).normal(size=(37, 61, 3)).astype(np.float32)
    for size in ((37, 90), (12, 61), (80, 20), (1, 1)):
        got = run_op(Resize(size, "nearest"), [("image", image)]).outputs[0]
        assert got.tobytes() == pillow_floats(image, size, "nearest").tobytes()


@pytest.mark.parametrize("name", FILTERS)
def test_what_is_no_number_stays_where_it_is(run_op, name):
    image = np.random.default_rng(4).random((41, 37, 1), np.float32)
    image[20, 18], image[5, 30] = np.nan, np.inf
    for size in ((16, 15), (60, 90), (41, 80), (15, 37), (41, 37)):
        got = run_op(Resize(size, name), [("image", image)]).outputs[0]
        expected = pillow_floats(image, size, name)
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("name", ["bilinear", "bicubic", "lanczos", "area"])
def test_one_infinite_pixel_spoils_its_windows_alone(run_op, name):
    image = np.random.default_rng(6).random((23, 29, 3), np.float32)
    image[11, 13, 1] = np.inf
    for size in ((23, 90), (60, 29), (50, 64), (9, 8), (60, 10)):
        got = run_op(Resize(size, name), [("image", image)]).outputs[0]
        down, across = (exact_weights(*s, name) for s in zip(image.shape, size, strict=False))
        reached = np.einsum("y,x->yx", abs(down[:, 11]) > 1e-9, abs(across[:, 13]) > 1e-9)
        assert not np.isfinite(got[..., 1][reached]).any()
        assert np.isfinite(got[..., [0, 2]]).all()


@pytest.mark.parametrize("name", ["bicubic", "lanczos"])
def test_floats_overshoot(run_op, name):
    step = np.zeros((1, 8, 1), np.float32)
    step[0, 4:] = 1
    got = run_op(Resize((1, 16), name), [("image", step)]).outputs[0]
    assert got.min() < 0
    assert got.max() > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", FILTERS)
def test_crops_of_a_photograph_are_as_pillow(run_op, as_record, photo, name):
    op = RandomResizedCrop(224, interpolation=name)
    exact = 0
    for key in range(60):
        record = run_op.draw(op, key, *photo.shape[:2])
        top, left, height, width = (int(v) for v in record)
        crop = photo[top : top + height, left : left + width]
        got = run_op(op, [("image", photo)], record=record).outputs[0]
        assert (got == pillow(crop, (224, 224), name)).all()
        one_call = np.asarray(Image.fromarray(crop).resize((224, 224), FILTERS[name]))
        exact += bool((got == one_call).all())
        if name not in ("bicubic", "lanczos"):
            assert np.abs(got.astype(int) - one_call).max() <= 1
    if int(PIL.__version__.split(".")[0]) >= 13:
        assert exact == 60, "one call of Pillow 13 runs the passes in this order"


@pytest.mark.slow
@pytest.mark.parametrize("name", FILTERS)
def test_crops_of_floats_are_as_pillow(run_op, photo, name):
    op, floats = RandomResizedCrop(96, interpolation=name), np.float32(photo) / np.float32(255)
    for key in range(10):
        record = run_op.draw(op, key, *photo.shape[:2])
        top, left, height, width = (int(v) for v in record)
        crop = floats[top : top + height, left : left + width]
        got = run_op(op, [("image", floats)], record=record).outputs[0]
        expected = pillow_floats(crop, (96, 96), name)
        assert np.abs(got - expected).max() <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", REACH)
def test_inside_of_the_crop_as_pillow_with_a_box(run_op, as_record, photo, name):
    """resize(box=) reads beyond the box, and orders its passes by the whole image's size.

    Pixels that need nothing from beyond are the same where the order is, which it is here.
    """
    op = RandomResizedCrop(100, interpolation=name)
    for top, left, height, width in [(30, 50, 200, 240), (7, 11, 61, 53), (100, 80, 99, 101)]:
        record = boxed(as_record, top, left, height, width)
        got = run_op(op, [("image", photo)], record=record).outputs[0]
        box = (left, top, left + width, top + height)
        expected = Image.fromarray(photo).resize((100, 100), FILTERS[name], box=box)
        edge = 1 + int(np.ceil(REACH[name] * max(1.0, 100 / min(height, width))))
        difference = np.abs(got.astype(int) - np.asarray(expected))[edge:-edge, edge:-edge]
        assert difference.max() <= 1


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from(["uint8", "int32"]))
def test_masks_are_as_pillow_nearest(run_op, noise, size_in, size_out, dtype):
    mask = noise((2, size_in), size_in, dtype, classes=200)
    got = run_op(Resize((3, size_out)), [("mask", mask)]).outputs[0]
    expected = np.asarray(Image.fromarray(mask).resize((size_out, 3), Image.NEAREST))
    assert got.dtype == mask.dtype
    assert (got == expected).all()


def joined(words: np.ndarray) -> np.ndarray:
    """Return the weights of split quads."""
    low, high = words.view(np.int16).reshape(-1, 2, 4).astype(np.int64).swapaxes(0, 1)
    return (low + (high << 16)).ravel()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 300), st.integers(0, 3), *[st.integers(0, 7)] * 2)
def test_tables(size_in, size_out, filter_id, before, after):
    """Of a whole axis, and of a span that begins and ends inside of pixels."""
    span = (before / 8, max(size_in - (before + after) / 8, 1 / 8))
    if not before and not after:
        assert span == taps.whole_span(size_in)
    count = taps.tap_count(size_in, span, size_out, filter_id)
    first, words = np.zeros(size_out, np.int32), np.zeros(size_out * count, np.int32)
    row = np.zeros(count)
    compiled(tables.fill_table)(size_in, span, size_out, filter_id, count, first, words, row)
    plain_first, plain = taps.plain_taps(size_in, span, size_out, filter_id)
    table = joined(words).reshape(size_out, count)
    assert (first == plain_first).all()
    again, split = np.zeros_like(first), np.zeros_like(words)
    tables.fill_table(size_in, span, size_out, filter_id, count, again, split, row)
    assert (again == first).all()
    assert (split == words).all()
    assert (table[:, : plain.shape[1]] == plain).all()
    assert not table[:, plain.shape[1] :].any()
    assert count <= taps.tap_bound(size_in, size_out, filter_id)
    assert np.abs(plain.sum(1) - 2**taps.PRECISION).max() <= plain.shape[1]
    assert np.abs(plain).sum(1).max() * 255 + 2**21 < 2**31, "a sum may leave int32"


@pytest.mark.parametrize("name", [*FILTERS, "area"])
@pytest.mark.parametrize("gray", [0, 1, 127, 254, 255])
def test_constants_are_preserved(run_op, name, gray):
    for shape, size in (((7, 300, 3), (90, 2)), ((300, 7, 3), (2, 90)), ((1, 1, 3), (40, 50))):
        image = np.full(shape, gray, np.uint8)
        assert (run_op(Resize(size, name), [("image", image)]).outputs[0] == gray).all()


def test_same_size_is_the_identity(run_op, noise):
    image, mask = noise((33, 47, 3)), noise((33, 47))
    for name in (*FILTERS, "area"):
        done = run_op(Resize((33, 47), name), [("image", image), ("mask", mask)])
        assert (done.outputs[0] == image).all()
        assert (done.outputs[1] == mask).all()


def test_nothing_outside_of_the_crop_is_read(run_op, as_record, photo):
    box = (60, 90, 100, 130)
    inside = np.zeros_like(photo)
    part = (slice(60, 160), slice(90, 220))
    inside[part] = photo[part]
    for name in (*FILTERS, "area"):
        op = RandomResizedCrop(64, interpolation=name)
        record = boxed(as_record, *box)
        whole = run_op(op, [("image", photo)], record=record).outputs[0]
        assert (whole == run_op(op, [("image", inside)], record=record).outputs[0]).all()


@pytest.mark.parametrize("size", [(200, 224), (64, 96), (37, 53), (113, 31), (1, 1)])
def test_area_shrinks_a_photograph_as_opencv(run_op, photo, size):
    for image in (photo, photo[..., 1:2].copy(), np.dstack([photo, photo[..., :1]])):
        expected = cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA)
        got = run_op(Resize(size, "area"), [("image", image)]).outputs[0]
        assert np.abs(got.astype(int) - expected.reshape(got.shape)).max() <= 1


def test_area_enlarges_as_opencv(run_op, photo):
    """At an exact border of pixels, rounding moves OpenCV by a pixel: these sizes avoid it."""
    image = photo[:90, :120].copy()
    for size in ((203, 251), (180, 360), (90, 130)):
        expected = cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA)
        got = run_op(Resize(size, "area"), [("image", image)]).outputs[0]
        assert np.abs(got.astype(int) - expected).max() <= 1


def test_area_of_whole_blocks_is_their_mean_and_of_copies_the_pixel(run_op, noise):
    image = noise((12, 20, 3)).astype(np.float32)
    small = run_op(Resize((4, 5), "area"), [("image", image)]).outputs[0]
    np.testing.assert_allclose(small, image.reshape(4, 3, 5, 4, 3).mean((1, 3)), rtol=1e-6)
    large = run_op(Resize((36, 40), "area"), [("image", image)]).outputs[0]
    assert (large == image.repeat(3, 0).repeat(2, 1)).all()


def test_area_reads_no_pixel_that_an_output_pixel_only_touches(run_op):
    image = np.zeros((4, 6, 1), np.float32)
    image[1, 2] = np.nan
    got = run_op(Resize((2, 3), "area"), [("image", image)]).outputs[0]
    assert np.argwhere(np.isnan(got)).tolist() == [[0, 1, 0]]


def test_masks_stay_nearest(run_op, noise):
    mask = noise((40, 60), 3, "uint8", classes=200)
    outputs = [
        run_op(Resize((23, 31), name), [("mask", mask)]).outputs[0].tobytes()
        for name in (*FILTERS, "area")
    ]
    assert len(set(outputs)) == 1
