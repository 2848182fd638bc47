"""Peers of the ops that change levels. Each function returns its contenders by name.

OpenCV lacks functions for some of these ops. Its contender is then the shortest chain of its
functions with the same result: a table (`cv2.LUT`) made for the call, or a blend with the gray
image.
"""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from ops_subject import Peers, Subject
from PIL import Image, ImageEnhance, ImageOps

Maker = Callable[[Subject], Peers]
FACTOR = 1.3
TURN = 0.1
GAMMA = 1.4
SIGMA = 20.0
CLIP_LIMIT = 3.0
TILES = 8
LEVELS = np.arange(256)
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
MEAN255 = np.float32(MEAN) * np.float32(255.0)
GAIN = np.float32(1.0) / (np.float32(255.0) * np.float32(STD))


def table(levels: np.ndarray) -> np.ndarray:
    """Return a table of 256 levels, rounded and clipped."""
    return np.clip(np.rint(levels), 0, 255).astype(np.uint8)


def brightness(s: Subject) -> Peers:
    out = s.blank()
    return {
        "OpenCV": lambda: cv2.LUT(s.array, table(LEVELS * FACTOR), out),
        "Pillow": lambda: ImageEnhance.Brightness(s.picture).enhance(FACTOR),
        **s.torchvision(lambda f, x: f.adjust_brightness(x, FACTOR)),
        **s.albumentations(lambda f, x: f.adjust_brightness_torchvision(x, FACTOR)),
    }


def contrast_of(image: np.ndarray, gray: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Change the contrast with OpenCV; `gray` is preallocated memory."""
    cv2.cvtColor(image, cv2.COLOR_RGB2GRAY, gray)
    rest = (1.0 - FACTOR) * cv2.mean(gray)[0]
    return cv2.LUT(image, table(LEVELS * FACTOR + rest), out)


def contrast(s: Subject) -> Peers:
    out, gray = s.blank(), np.empty(s.size, np.uint8)
    return {
        "OpenCV": lambda: contrast_of(s.array, gray, out),
        "Pillow": lambda: ImageEnhance.Contrast(s.picture).enhance(FACTOR),
        **s.torchvision(lambda f, x: f.adjust_contrast(x, FACTOR)),
        **s.albumentations(lambda f, x: f.adjust_contrast_torchvision(x, FACTOR)),
    }


def saturation_of(
    image: np.ndarray, gray: np.ndarray, wide: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Change the saturation with OpenCV; `gray` and `wide` are preallocated memory."""
    cv2.cvtColor(image, cv2.COLOR_RGB2GRAY, gray)
    cv2.cvtColor(gray, cv2.COLOR_GRAY2RGB, wide)
    return cv2.addWeighted(image, FACTOR, wide, 1.0 - FACTOR, 0.0, out)


def saturation(s: Subject) -> Peers:
    out, wide, gray = s.blank(), s.blank(), np.empty(s.size, np.uint8)
    return {
        "OpenCV": lambda: saturation_of(s.array, gray, wide, out),
        "Pillow": lambda: ImageEnhance.Color(s.picture).enhance(FACTOR),
        **s.torchvision(lambda f, x: f.adjust_saturation(x, FACTOR)),
    }


def hue_of(image: np.ndarray, turned: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Turn the hue with OpenCV; `turned` is preallocated memory."""
    cv2.cvtColor(image, cv2.COLOR_RGB2HSV, turned)
    hues = cv2.LUT(turned[..., 0], ((LEVELS + int(TURN * 180)) % 180).astype(np.uint8))
    cv2.insertChannel(hues, turned, 0)
    return cv2.cvtColor(turned, cv2.COLOR_HSV2RGB, out)


def pillow_hue(picture: Image.Image) -> Image.Image:
    """Turn the hue with Pillow."""
    move = int(TURN * 255)
    h, s, v = picture.convert("HSV").split()
    moved = h.point([(i + move) % 256 for i in range(256)])
    return Image.merge("HSV", (moved, s, v)).convert("RGB")


def hue(s: Subject) -> Peers:
    out, turned = s.blank(), s.blank()
    return {
        "OpenCV": lambda: hue_of(s.array, turned, out),
        "Pillow": lambda: pillow_hue(s.picture),
        **s.torchvision(lambda f, x: f.adjust_hue(x, TURN)),
        **s.albumentations(lambda f, x: f.adjust_hue_torchvision(x, TURN)),
    }


def color_jitter(s: Subject) -> Peers:
    """Change brightness, contrast, saturation and hue, in this order."""
    one, two, wide, gray = s.blank(), s.blank(), s.blank(), np.empty(s.size, np.uint8)

    def opencv() -> np.ndarray:
        bright = cv2.LUT(s.array, table(LEVELS * FACTOR), one)
        contrasted = contrast_of(bright, gray, two)
        return hue_of(saturation_of(contrasted, gray, wide, one), wide, two)

    def pillow() -> Image.Image:
        picture = s.picture
        for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            picture = enhance(picture).enhance(FACTOR)
        return pillow_hue(picture)

    return {"OpenCV": opencv, "Pillow": pillow, **s.torchvision(torchvision_jitter)}


def torchvision_jitter(f: Any, image: Any) -> Any:
    """Change all four with torchvision."""
    for change in (f.adjust_brightness, f.adjust_contrast, f.adjust_saturation):
        image = change(image, FACTOR)
    return f.adjust_hue(image, TURN)


def to_gray(s: Subject) -> Peers:
    out = np.empty(s.size, s.array.dtype)
    return {
        "OpenCV": lambda: cv2.cvtColor(s.array, cv2.COLOR_RGB2GRAY, out)[..., np.newaxis],
        "Pillow": lambda: np.asarray(s.picture.convert("L"))[..., np.newaxis],
        **s.torchvision(lambda f, x: f.rgb_to_grayscale(x, 1)),
    }


def to_rgb(s: Subject) -> Peers:
    out = np.empty((*s.size, 3), s.array.dtype)
    return {
        "OpenCV": lambda: cv2.cvtColor(s.array, cv2.COLOR_GRAY2RGB, out),
        "Pillow": lambda: s.picture.convert("RGB"),
        **s.torchvision(lambda f, x: f.grayscale_to_rgb(x)),
    }


def grayscale(s: Subject) -> Peers:
    out, gray = s.blank(), np.empty(s.size, np.uint8)

    def opencv() -> np.ndarray:
        cv2.cvtColor(s.array, cv2.COLOR_RGB2GRAY, gray)
        return cv2.cvtColor(gray, cv2.COLOR_GRAY2RGB, out)

    return {
        "OpenCV": opencv,
        "Pillow": lambda: s.picture.convert("L").convert("RGB"),
        **s.torchvision(lambda f, x: f.rgb_to_grayscale(x, 3)),
    }


def invert(s: Subject) -> Peers:
    out = s.blank()
    return {
        "OpenCV": lambda: cv2.bitwise_not(s.array, out),
        "Pillow": lambda: ImageOps.invert(s.picture),
        **s.torchvision(lambda f, x: f.invert(x)),
        **s.albumentations(lambda f, x: f.invert(x)),
    }


def solarize(s: Subject) -> Peers:
    out = s.blank()
    levels = np.where(LEVELS >= 128, 255 - LEVELS, LEVELS).astype(np.uint8)
    return {
        "OpenCV": lambda: cv2.LUT(s.array, levels, out),
        "Pillow": lambda: ImageOps.solarize(s.picture, 128),
        **s.torchvision(lambda f, x: f.solarize(x, 128)),
        **s.albumentations(lambda f, x: f.solarize(x, 128 / 255)),
    }


def posterize(s: Subject) -> Peers:
    out = s.blank()
    return {
        "NumPy": lambda: np.bitwise_and(s.array, np.uint8(0xF0), out=out),
        "Pillow": lambda: ImageOps.posterize(s.picture, 4),
        **s.torchvision(lambda f, x: f.posterize(x, 4)),
        **s.albumentations(lambda f, x: f.posterize(x, 4)),
    }


def gamma(s: Subject) -> Peers:
    out = s.blank()
    return {
        "OpenCV": lambda: cv2.LUT(s.array, table(255.0 * (LEVELS / 255.0) ** GAMMA), out),
        **s.torchvision(lambda f, x: f.adjust_gamma(x, GAMMA)),
        **s.albumentations(lambda f, x: f.gamma_transform(x, GAMMA)),
    }


def equalize(s: Subject) -> Peers:
    out = s.blank()

    def opencv() -> np.ndarray:
        return cv2.merge([cv2.equalizeHist(channel) for channel in cv2.split(s.array)], out)

    return {
        "OpenCV": opencv,
        "Pillow": lambda: ImageOps.equalize(s.picture),
        **s.torchvision(lambda f, x: f.equalize(x)),
        **s.albumentations(lambda f, x: f.equalize(x, mode="pil")),
    }


def autocontrast(s: Subject) -> Peers:
    out = s.blank()

    def opencv() -> np.ndarray:
        stretched = []
        for channel in cv2.split(s.array):
            low, high, _, _ = cv2.minMaxLoc(channel)
            gain = 255.0 / (high - low)
            stretched.append(cv2.LUT(channel, table(LEVELS * gain - low * gain)))
        return cv2.merge(stretched, out)

    return {
        "OpenCV": opencv,
        "Pillow": lambda: ImageOps.autocontrast(s.picture),
        **s.torchvision(lambda f, x: f.autocontrast(x)),
    }


def clahe(s: Subject) -> Peers:
    """Equalize the luma of tiles; blue and red difference stay unchanged."""
    out, wide, luma = s.blank(), s.blank(), np.empty(s.size, np.uint8)
    equalizer = cv2.createCLAHE(CLIP_LIMIT, (TILES, TILES))

    def opencv() -> np.ndarray:
        cv2.cvtColor(s.array, cv2.COLOR_RGB2YCrCb, wide)
        cv2.extractChannel(wide, 0, luma)
        cv2.insertChannel(equalizer.apply(luma, luma), wide, 0)
        return cv2.cvtColor(wide, cv2.COLOR_YCrCb2RGB, out)

    return {"OpenCV": opencv}


def channel_shuffle(s: Subject) -> Peers:
    out = s.blank()

    def opencv() -> np.ndarray:
        cv2.mixChannels([s.array], [out], [2, 0, 0, 1, 1, 2])
        return out

    def pillow() -> Image.Image:
        red, green, blue = s.picture.split()
        return Image.merge("RGB", (blue, red, green))

    return {
        "OpenCV": opencv,
        "Pillow": pillow,
        **s.torchvision(lambda f, x: f.permute_channels(x, [2, 0, 1])),
        **s.albumentations(lambda f, x: f.channel_shuffle(x, [2, 0, 1])),
    }


def sharpness(s: Subject) -> Peers:
    out = s.blank()
    soft = np.float32([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13

    def opencv() -> np.ndarray:
        smooth = cv2.filter2D(s.array, -1, soft)
        return cv2.addWeighted(s.array, FACTOR, smooth, 1 - FACTOR, 0.0, out)

    return {
        "OpenCV": opencv,
        "Pillow": lambda: ImageEnhance.Sharpness(s.picture).enhance(FACTOR),
        **s.torchvision(lambda f, x: f.adjust_sharpness(x, FACTOR)),
    }


def gaussian_blur(size: int, sigma: float) -> Maker:
    """Return a maker for a Gaussian window of `size` pixels."""

    def make(s: Subject) -> Peers:
        out = s.blank()
        border = cv2.BORDER_REFLECT_101
        return {
            "OpenCV": lambda: cv2.GaussianBlur(
                s.array, (size, size), sigma, out, borderType=border
            ),
            **s.torchvision(lambda f, x: f.gaussian_blur(x, [size] * 2, [sigma] * 2)),
        }

    return make


def gaussian_noise(s: Subject) -> Peers:
    out, noise = s.blank(), np.empty((*s.size, 3), np.int16)

    def opencv() -> np.ndarray:
        cv2.randn(noise, 0.0, SIGMA)
        return cv2.add(s.array, noise, out, dtype=cv2.CV_8U)

    return {"OpenCV": opencv}


def normalize(half: bool, planar: bool) -> Maker:
    """Return a maker for (level - mean) * gain, to float32 or float16, HWC or CHW."""
    dtype = np.float16 if half else np.float32
    means, gains = np.resize(MEAN255, (1, 1, 3)), np.resize(GAIN, (1, 1, 3))
    tables = ((LEVELS[:, None] - MEAN255) * GAIN).astype(dtype)

    def make(s: Subject) -> Peers:
        rows, columns = s.size
        wide = np.empty((rows, columns, 3), np.float32)
        out = np.empty((3, rows, columns) if planar else (rows, columns, 3), dtype)
        whole_means, whole_gains = (
            np.ascontiguousarray(np.broadcast_to(v, wide.shape)) for v in (means, gains)
        )

        def finish() -> np.ndarray:
            np.copyto(out, wide.transpose(2, 0, 1) if planar else wide, casting="same_kind")
            return out

        def numpy() -> np.ndarray:
            np.subtract(s.array, means, out=wide, dtype=np.float32)
            np.multiply(wide, gains, out=wide)
            return finish()

        def opencv() -> np.ndarray:
            cv2.subtract(s.array, whole_means, wide, dtype=cv2.CV_32F)
            cv2.multiply(wide, whole_gains, wide)
            return finish() if half or planar else wide

        def by_table() -> np.ndarray:
            if planar:
                for c, channel in enumerate(cv2.split(s.array)):
                    look_up(channel, tables[:, c], out[c])
            else:
                look_up(s.array, tables.reshape(1, 256, 3), out)
            return out

        return {"NumPy": numpy, "OpenCV": opencv, "OpenCV table": by_table}

    return make


def look_up(levels: np.ndarray, numbers: np.ndarray, out: np.ndarray) -> None:
    """Convert levels to floats with OpenCV; float16 as its bits."""
    if out.dtype == np.float16:
        numbers, out = numbers.view(np.uint16), out.view(np.uint16)
    cv2.LUT(levels, np.ascontiguousarray(numbers), out)
