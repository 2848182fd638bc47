"""Images of uint16 through a Loader: ops of colors, filters and warps against float64.

One daemon and one pipeline compute all ops; each oracle gets the stored image and what the op drew.
"""

import shutil

import cv2
import numpy as np
import pytest
from daemons import serving
from scipy import ndimage
from skimage import color

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.jit.arithmetic import PLAIN
from stoker.ops._testing.runner import OpRunner
from stoker.ops.bases.weighted import plain_window
from stoker.ops.filters.defocus import disk_window
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError

pytestmark = pytest.mark.slow

WHITE, HALF, FILL, SIDES = 65535.0, 32767.5, 40000, (40, 56)
SMOOTH = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
OPS = {
    "autocontrast": ops.Autocontrast(p=1),
    "box_blur": ops.BoxBlur((5, 5), p=1),
    "brightness": ops.Brightness((1.2871, 1.2871), p=1),
    "channel_drop": ops.ChannelDrop(fill=FILL, p=1),
    "channel_shuffle": ops.ChannelShuffle(p=1),
    "coarse_dropout": ops.CoarseDropout((3, 3), fill=FILL, p=1),
    "color_jitter": ops.ColorJitter(0.4, 0.4, 0.4, 0.2),
    "contrast": ops.Contrast((0.6, 1.6), p=1),
    "defocus": ops.Defocus((3, 5), p=1),
    "downscale": ops.Downscale((0.5, 0.5), p=1),
    "erase": ops.Erase(fill=FILL, p=1),
    "gamma": ops.Gamma((1.7, 1.7), p=1),
    "gaussian_blur": ops.GaussianBlur(7, (1.5, 1.5), p=1),
    "gaussian_noise": ops.GaussianNoise((10, 10), p=1),
    "grayscale": ops.Grayscale(p=1),
    "grid_mask": ops.GridMask((9, 12), fill=FILL, p=1),
    "hue": ops.Hue((0.1, 0.4), p=1),
    "invert": ops.Invert(p=1),
    "median_blur": ops.MedianBlur((7, 7), p=1),
    "motion_blur": ops.MotionBlur((5, 5), p=1, degrees=(0, 0)),
    "rgb_shift": ops.RgbShift((20, 20), (-30, -30), (0.3, 0.3), p=1),
    "rgb_to_ycbcr": ops.RgbToYcbcr(),
    "salt_and_pepper": ops.SaltAndPepper((0.2, 0.2), p=1),
    "saturation": ops.Saturation((1.5, 1.5), p=1),
    "sharpness": ops.Sharpness((2, 2), p=1),
    "solarize": ops.Solarize(100, p=1),
    "to_gray": ops.ToGray(),
    "to_rgb": ops.ToRgb(),
    "ycbcr_to_rgb": ops.YcbcrToRgb(),
}
WARPS = {
    "affine": ops.Affine(30, 0.1, (0.8, 1.2), 10, fill=FILL),
    "elastic": ops.Elastic((5, 8), fill=FILL, p=1),
    "grid_distortion": ops.GridDistortion(p=1),
    "letterbox": ops.Letterbox((50, 30), fill=FILL, interpolation="bicubic"),
    "optical_distortion": ops.OpticalDistortion((0.2, 0.3), fill=FILL, p=1),
    "pad_to_size": ops.PadToSize((50, 60), fill=FILL),
    "perspective": ops.Perspective(fill=FILL, p=1),
    "rotate": ops.Rotate((20, 70), fill=FILL),
    "safe_rotate": ops.SafeRotate((20, 70), fill=FILL),
    "zoom_out": ops.ZoomOut((1.5, 2), fill=FILL, p=1),
}
REFUSED = {
    "augmix_transform": ops.AugmixTransform(),
    "clahe": ops.Clahe(),
    "equalize": ops.Equalize(),
    "iso_noise": ops.IsoNoise(),
    "jpeg_compression": ops.JpegCompression(),
    "posterize": ops.Posterize(),
    "shot_noise": ops.ShotNoise(),
}


@pipeline
def every(sample):
    made = {name: op(sample.image) for name, op in (OPS | WARPS).items()}
    made["zoom_out"] = ops.letterbox(made["zoom_out"], size=99, interpolation="nearest")
    return made


@pytest.fixture(scope="module")
def stored():
    """Two smooth images with noise, and boxes of the darkest and the brightest."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 65536, (2, 5, 7, 3)).astype(np.float64)
    rows = ndimage.zoom(rows, (1, 8, 8, 1), order=1) + rng.normal(0, 900, (2, *SIDES, 3))
    rows[:, 3:9, 5:20], rows[:, 20:28, 30:44] = 700, 64000
    return rows.clip(700, 64000).astype(np.uint16)


@pytest.fixture(scope="module")
def daemon(stored, session_folder):
    folder = session_folder / "wide"
    folder.mkdir()
    image = schema.image(encoding="raw", dtype="uint16")
    write(str(folder / "data"), [image], [{"image": row} for row in stored])
    with serving(folder, f"--dataset=xrays={folder / 'data'}", "--workers=1") as running:
        yield running
    shutil.rmtree(folder)


def loader(daemon, made):
    return Loader(
        daemon.address, dataset="xrays", pipeline=made, batch_size=2, device="numpy",
        shuffle=False, params=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def batch(daemon):
    """The two rows of every op, and their draws."""
    with loader(daemon, every) as running:
        (found,) = running
        return {name: np.array(value) for name, value in found.items()}, found.params


def luma(x):
    return x @ np.array([19595, 38470, 7471]) / 65536


def gray3(x):
    return np.repeat(luma(x)[..., None], 3, -1)


def blend(x, other, factor):
    return (factor * x + (1 - factor) * other).clip(0, WHITE)


def turned(x, turn):
    hsv = color.rgb2hsv(x / WHITE)
    hsv[..., 0] = (hsv[..., 0] + turn) % 1
    return WHITE * color.hsv2rgb(hsv)


def jittered(x, drawn):
    for step in drawn["order"]:
        if step == 3:
            x = turned(x, drawn["hue"])
        elif step == 2:
            x = blend(x, gray3(x), drawn["saturation"])
        else:
            other = luma(x).mean() if step else 0
            x = blend(x, other, drawn["contrast" if step else "brightness"])
    return x


def stretched(x, _):
    low, high = x.min((0, 1)), x.max((0, 1))
    return (x - low) / (high - low) * WHITE


def correlated(x, weights):
    return np.stack([ndimage.correlate(plane, weights, mode="mirror") for plane in planes(x)], -1)


def planes(x):
    return np.moveaxis(x, -1, 0)


def sharpened(x, _):
    soft = correlated(x, SMOOTH)
    soft[[0, -1]], soft[:, [0, -1]] = x[[0, -1]], x[:, [0, -1]]
    return blend(x, soft, 2)


def defocused(x, drawn):
    side, weights = plain_window(disk_window, drawn)
    return correlated(x, weights.reshape(side, side) / 2**24)


def dropped(x, drawn):
    x = x.copy()
    x[..., next(c for c in drawn["order"] if c < 3)] = FILL
    return x


def holes(x, drawn):
    x = x.copy()
    for top, left, rows, columns in np.reshape(drawn["boxes"], (-1, 4))[: drawn["count"]]:
        x[top : top + rows, left : left + columns] = FILL
    return x


def erased(x, drawn):
    x = x.copy()
    top, left = drawn["top"], drawn["left"]
    x[top : top + drawn["height"], left : left + drawn["width"]] = FILL
    return x


def grid(x, drawn):
    rows, columns = (
        (np.arange(side) + drawn[start]) % drawn["unit"] < drawn["hole"]
        for side, start in zip(SIDES, ("top", "left"), strict=True)
    )
    return np.where((rows[:, None] & columns)[..., None], FILL, x)


def to_ycbcr(x, _):
    """By JFIF; the middle of chroma is half of white."""
    y = x @ np.array([0.299, 0.587, 0.114])
    return np.stack([y, (x[..., 2] - y) / 1.772 + HALF, (x[..., 0] - y) / 1.402 + HALF], -1)


def to_rgb(x, _):
    y, cb, cr = planes(x - np.array([0, HALF, HALF]))
    red, blue = y + 1.402 * cr, y + 1.772 * cb
    return np.stack([red, (y - 0.299 * red - 0.114 * blue) / 0.587, blue], -1).clip(0, WHITE)


ORACLES = {
    "autocontrast": (stretched, 1),
    "box_blur": (lambda x, _: cv2.blur(x, (5, 5)), 1),
    "brightness": (lambda x, _: (1.2871 * x).clip(0, WHITE), 1),
    "channel_drop": (dropped, 0),
    "channel_shuffle": (lambda x, d: x[..., [c for c in d["order"] if c < 3]], 0),
    "coarse_dropout": (holes, 0),
    "color_jitter": (jittered, 1),
    "contrast": (lambda x, d: blend(x, luma(x).mean(), d["factor"]), 1),
    "defocus": (defocused, 1),
    "downscale": (lambda x, _: x[1::2, 1::2].repeat(2, 0).repeat(2, 1), 0),
    "erase": (erased, 0),
    "gamma": (lambda x, _: WHITE * (x / WHITE) ** 1.7, 1),
    "gaussian_blur": (lambda x, _: cv2.GaussianBlur(x, (7, 7), 1.5), 1),
    "grayscale": (lambda x, _: np.floor(gray3(x) + 0.5), 0),
    "grid_mask": (grid, 0),
    "hue": (lambda x, d: turned(x, d["turn"]), 1),
    "invert": (lambda x, _: WHITE - x, 0),
    "median_blur": (lambda x, _: ndimage.median_filter(x, (7, 7, 1), mode="nearest"), 0),
    "motion_blur": (lambda x, _: ndimage.uniform_filter1d(x, 5, 1, mode="mirror"), 1),
    "rgb_shift": (lambda x, _: (x + np.array([20, -30, 0.3]) * 257).clip(0, WHITE), 1),
    "rgb_to_ycbcr": (to_ycbcr, 2),
    "saturation": (lambda x, _: blend(x, gray3(x), 1.5), 1),
    "sharpness": (sharpened, 1),
    "solarize": (lambda x, _: np.where(x >= 25700, WHITE - x, x), 0),
    "to_gray": (lambda x, _: np.floor(luma(x) + 0.5)[..., None], 0),
    "to_rgb": (lambda x, _: x, 0),
    "ycbcr_to_rgb": (to_rgb, 2),
}
"""(image and draws -> levels before rounding, how many levels a result may differ)."""


@pytest.mark.parametrize("name", ORACLES)
def test_it_is_numpy_in_float64(name, batch, stored):
    values, params = batch
    oracle, most = ORACLES[name]
    assert values[name].dtype == np.uint16
    for row, image in enumerate(stored):
        drawn = params[name][row] if name in params else None
        expected = np.floor(oracle(image.astype(np.float64), drawn) + 0.5)
        assert np.abs(values[name][row] - expected).max() <= most
        assert most > 1 or (values[name][row] != expected).mean() <= 0.01
    assert name == "to_rgb" or not np.array_equal(values[name], stored)


@pytest.mark.parametrize("name", WARPS)
def test_a_warp_is_that_of_floats_rounded_to_levels(name, batch, stored):
    """The draws are those of the row; floats are held to OpenCV by tests of each op."""
    values, params = batch
    runner = OpRunner()
    for row, image in enumerate(stored):
        given = [("image", image.astype(np.float32))]
        record = params[name][row] if name in params else None
        (found,) = runner(WARPS[name], given, arithmetic=PLAIN, record=record).outputs
        if name == "zoom_out":
            last = ops.Letterbox(99, interpolation="nearest")
            (found,) = runner(last, [("image", found)], arithmetic=PLAIN).outputs
        expected = np.floor(found.clip(0, WHITE).astype(np.float64) + 0.5)
        assert np.abs(values[name][row] - expected).max() <= 1
        assert (values[name][row] != expected).mean() <= 0.005
        assert name == "grid_distortion" or (values[name][row] == FILL).all(-1).any()


def test_a_rotation_is_scipys(batch, stored):
    values, params = batch
    turned = ndimage.rotate(
        stored[0].astype(np.float64), float(params["rotate"]["angle"][0]), reshape=False, order=1
    )
    inner = np.abs(values["rotate"][0] - turned)[12:-12, 20:-20]
    assert inner.mean() < 60
    assert inner.max() < 800


def test_noise_has_the_strength_that_8_bits_have(batch, stored):
    """Sigma counts in parts of 255, so white noise of 10 is 2570 levels of uint16."""
    noise = batch[0]["gaussian_noise"].astype(np.int64) - stored
    inside = (stored > 12000) & (stored < 53000)
    assert abs(noise[inside].mean()) < 60
    assert abs(noise[inside].std() - 2570) < 60
    assert np.abs(noise[inside]).max() < 4.1 * 2570
    assert len(np.unique(noise)) > 2000


def test_salt_is_65535(batch, stored):
    found = batch[0]["salt_and_pepper"]
    hit = (found != stored).any(-1)
    assert set(np.unique(found[hit])) == {0, 65535}
    assert 0.15 < hit.mean() < 0.25
    assert {*ORACLES, "gaussian_noise", "salt_and_pepper"} == OPS.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_ops_of_256_levels_refuse_it_and_say_why(name, daemon):
    made = pipeline(lambda sample: {"image": REFUSED[name](sample.image)})
    with pytest.raises(BuildError) as caught, loader(daemon, made) as running:
        next(iter(running))
    assert f"{name} has no rule for image uint16[40x56x3]" in caught.value.message
    assert "256 levels" in caught.value.message
    assert f"Call to_float before {name}, and from_float after that" in caught.value.message
