"""Peers of the ops that change levels, on images of float32; like `ops_color`.

If a library lacks a function for an op, its contender is the shortest chain of its functions with
the same result. If the op clips to 0 to 1, contenders clip as well.
"""

import cv2
import numpy as np
from ops_color import FACTOR, GAMMA, MEAN, SIGMA, STD, TURN, Maker, torchvision_jitter
from ops_subject import Peers, Subject

REST = 1.0 - FACTOR


def clipped(image: np.ndarray) -> np.ndarray:
    """Clip floats to [0, 1], in place."""
    return np.clip(image, 0, 1, out=image)


def brightness(s: Subject) -> Peers:
    out = s.blank()
    return {
        "NumPy": lambda: clipped(np.multiply(s.array, np.float32(FACTOR), out=out)),
        "OpenCV": lambda: clipped(cv2.multiply(s.array, (FACTOR,) * 4, out)),
        **s.torchvision(lambda f, x: f.adjust_brightness(x, FACTOR)),
    }


def contrast_of(image: np.ndarray, gray: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Change the contrast with OpenCV and NumPy; `gray` is preallocated memory."""
    cv2.cvtColor(image, cv2.COLOR_RGB2GRAY, gray)
    np.multiply(image, np.float32(FACTOR), out=out)
    return clipped(np.add(out, np.float32(REST * cv2.mean(gray)[0]), out=out))


def contrast(s: Subject) -> Peers:
    out, gray = s.blank(), np.empty(s.size, np.float32)
    return {
        "OpenCV, NumPy": lambda: contrast_of(s.array, gray, out),
        **s.torchvision(lambda f, x: f.adjust_contrast(x, FACTOR)),
    }


def saturation_of(
    image: np.ndarray, gray: np.ndarray, wide: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Change the saturation with OpenCV; `gray` and `wide` are preallocated memory."""
    cv2.cvtColor(image, cv2.COLOR_RGB2GRAY, gray)
    cv2.cvtColor(gray, cv2.COLOR_GRAY2RGB, wide)
    return clipped(cv2.addWeighted(image, FACTOR, wide, REST, 0.0, out))


def saturation(s: Subject) -> Peers:
    out, wide, gray = s.blank(), s.blank(), np.empty(s.size, np.float32)
    return {
        "OpenCV": lambda: saturation_of(s.array, gray, wide, out),
        **s.torchvision(lambda f, x: f.adjust_saturation(x, FACTOR)),
    }


def hue_of(image: np.ndarray, turned: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Turn the hue with OpenCV; `turned` is preallocated memory."""
    cv2.cvtColor(image, cv2.COLOR_RGB2HSV, turned)
    hues = turned[..., 0] + np.float32(TURN * 360)
    hues[hues >= 360] -= 360
    cv2.insertChannel(hues, turned, 0)
    return cv2.cvtColor(turned, cv2.COLOR_HSV2RGB, out)


def hue(s: Subject) -> Peers:
    out, turned = s.blank(), s.blank()
    return {
        "OpenCV": lambda: hue_of(s.array, turned, out),
        **s.torchvision(lambda f, x: f.adjust_hue(x, TURN)),
    }


def color_jitter(s: Subject) -> Peers:
    """Change brightness, contrast, saturation and hue, in this order."""
    one, two, wide, gray = s.blank(), s.blank(), s.blank(), np.empty(s.size, np.float32)

    def opencv() -> np.ndarray:
        bright = clipped(cv2.multiply(s.array, (FACTOR,) * 4, one))
        contrasted = contrast_of(bright, gray, two)
        return hue_of(saturation_of(contrasted, gray, wide, one), wide, two)

    return {"OpenCV, NumPy": opencv, **s.torchvision(torchvision_jitter)}


def grayscale(s: Subject) -> Peers:
    out, gray = s.blank(), np.empty(s.size, np.float32)

    def opencv() -> np.ndarray:
        cv2.cvtColor(s.array, cv2.COLOR_RGB2GRAY, gray)
        return cv2.cvtColor(gray, cv2.COLOR_GRAY2RGB, out)

    return {"OpenCV": opencv, **s.torchvision(lambda f, x: f.rgb_to_grayscale(x, 3))}


def invert(s: Subject) -> Peers:
    out = s.blank()
    return {
        "NumPy": lambda: np.subtract(np.float32(1), s.array, out=out),
        "OpenCV": lambda: cv2.subtract((1.0,) * 4, s.array, out),
        **s.torchvision(lambda f, x: f.invert(x)),
    }


def solarize(s: Subject) -> Peers:
    out = s.blank()

    def numpy() -> np.ndarray:
        np.copyto(out, s.array)
        np.subtract(np.float32(1), s.array, out=out, where=s.array >= np.float32(128 / 255))
        return out

    return {"NumPy": numpy, **s.torchvision(lambda f, x: f.solarize(x, 128 / 255))}


def gamma(s: Subject) -> Peers:
    out = s.blank()
    return {
        "NumPy": lambda: np.power(s.array, np.float32(GAMMA), out=out),
        "OpenCV": lambda: cv2.pow(s.array, GAMMA, out),
        **s.torchvision(lambda f, x: f.adjust_gamma(x, GAMMA)),
    }


def autocontrast(s: Subject) -> Peers:
    out = s.blank()

    def numpy() -> np.ndarray:
        low, high = (f(s.array.reshape(-1, 3), 0) for f in (np.min, np.max))
        np.subtract(s.array, low, out=out)
        return np.divide(out, high - low, out=out)

    def opencv() -> np.ndarray:
        stretched = []
        for channel in cv2.split(s.array):
            low, high, _, _ = cv2.minMaxLoc(channel)
            stretched.append((channel - np.float32(low)) * np.float32(1 / (high - low)))
        return cv2.merge(stretched, out)

    return {"NumPy": numpy, "OpenCV": opencv, **s.torchvision(lambda f, x: f.autocontrast(x))}


def sharpness(s: Subject) -> Peers:
    out = s.blank()
    soft = np.float32([[1, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13

    def opencv() -> np.ndarray:
        smooth = cv2.filter2D(s.array, -1, soft)
        return clipped(cv2.addWeighted(s.array, FACTOR, smooth, REST, 0.0, out))

    return {"OpenCV": opencv, **s.torchvision(lambda f, x: f.adjust_sharpness(x, FACTOR))}


def gaussian_noise(s: Subject) -> Peers:
    out, noise = s.blank(), s.blank()

    def opencv() -> np.ndarray:
        cv2.randn(noise, 0.0, SIGMA / 255)
        return clipped(cv2.add(s.array, noise, out))

    return {"OpenCV": opencv}


def to_hsv(s: Subject) -> Peers:
    out = s.blank()

    def opencv() -> np.ndarray:
        cv2.cvtColor(s.array, cv2.COLOR_RGB2HSV, out)
        out[..., 0] *= np.float32(1 / 360)
        return out

    return {"OpenCV": opencv}


def from_hsv(s: Subject) -> Peers:
    out, turns = s.blank(), s.blank()

    def opencv() -> np.ndarray:
        np.multiply(s.array, np.float32((360, 1, 1)), out=turns)
        return cv2.cvtColor(turns, cv2.COLOR_HSV2RGB, out)

    return {"OpenCV": opencv}


def to_ycbcr(s: Subject) -> Peers:
    out, turned = s.blank(), s.blank()

    def opencv() -> np.ndarray:
        cv2.cvtColor(s.array, cv2.COLOR_RGB2YCrCb, turned)
        cv2.mixChannels([turned], [out], [0, 0, 1, 2, 2, 1])
        return out

    return {"OpenCV": opencv}


def normalize(half: bool, planar: bool) -> Maker:
    """Return a maker for (x - mean) / std, to float32 or float16, HWC or CHW."""
    means, gains = np.float32(MEAN), np.float32(1) / np.float32(STD)

    def make(s: Subject) -> Peers:
        rows, columns = s.size
        shape = (3, rows, columns) if planar else (rows, columns, 3)
        wide, out = s.blank(), np.empty(shape, np.float16 if half else np.float32)

        def numpy() -> np.ndarray:
            np.subtract(s.array, means, out=wide)
            np.multiply(wide, gains, out=wide)
            np.copyto(out, wide.transpose(2, 0, 1) if planar else wide, casting="same_kind")
            return out

        same = planar and not half
        return {
            "NumPy": numpy,
            **(s.torchvision(lambda f, x: f.normalize(x, list(MEAN), list(STD))) if same else {}),
        }

    return make
