"""Peers of filters, noise, color spaces and layouts; like `ops_color`."""

import io
from collections.abc import Callable

import cv2
import numpy as np
from ops_geometry import ANGLE
from ops_subject import LESS, Peers, Subject
from PIL import Image, ImageFilter

Maker = Callable[[Subject], Peers]
QUALITY = 60
AMOUNT = 0.05
REFLECT = cv2.BORDER_REFLECT_101


def box_blur(size: int) -> Maker:
    """Return a maker for a mean over a window."""

    def make(s: Subject) -> Peers:
        out = s.blank()
        box = ImageFilter.BoxBlur(size // 2)
        return {
            "OpenCV": lambda: cv2.blur(s.array, (size, size), out, borderType=REFLECT),
            f"Pillow{LESS}": lambda: s.picture.filter(box),  # extends the image by its edge pixels
        }

    return make


def median_blur(size: int) -> Maker:
    """Return a maker for a median over a window."""

    def make(s: Subject) -> Peers:
        out = s.blank()
        median = ImageFilter.MedianFilter(size)
        return {
            "OpenCV": lambda: cv2.medianBlur(s.array, size, out),
            "Pillow": lambda: s.picture.filter(median),
        }

    return make


def motion_blur(size: int) -> Maker:
    """Return a maker for a mean along a line, turned by `ANGLE`."""
    middle = (size - 1) / 2
    line = np.zeros((size, size), np.float32)
    line[size // 2] = 1 / size
    turned = cv2.getRotationMatrix2D((middle, middle), ANGLE, 1.0)
    window = cv2.warpAffine(line, turned, (size, size))
    window /= window.sum()

    def make(s: Subject) -> Peers:
        out = s.blank()
        return {"OpenCV": lambda: cv2.filter2D(s.array, -1, window, out, borderType=REFLECT)}

    return make


def convert(code: int, mode: str | None = None) -> Maker:
    """Return a maker for a conversion: OpenCV's code, and Pillow's mode if it is the same."""

    def make(s: Subject) -> Peers:
        out = s.blank()
        same = {f"OpenCV{LESS if mode else ''}": lambda: cv2.cvtColor(s.array, code, out)}
        return {**same, "Pillow": lambda: s.picture.convert(mode)} if mode else same

    return make


def from_ycbcr(s: Subject) -> Peers:
    """Convert back to RGB; the same numbers count as YCbCr."""
    out, picture = s.blank(), Image.frombytes("YCbCr", s.size[::-1], s.array.tobytes())
    return {
        f"OpenCV{LESS}": lambda: cv2.cvtColor(s.array, cv2.COLOR_YCrCb2RGB, out),
        "Pillow": lambda: picture.convert("RGB"),
    }


def jpeg_compression(s: Subject) -> Peers:
    def opencv() -> np.ndarray:
        _, data = cv2.imencode(".jpg", s.array, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        return cv2.imdecode(data, cv2.IMREAD_COLOR)

    def pillow() -> Image.Image:
        file = io.BytesIO()
        s.picture.save(file, "JPEG", quality=QUALITY)
        return Image.open(file).convert("RGB")

    return {f"OpenCV{LESS}": opencv, "Pillow": pillow}  # OpenCV reads the image as BGR


def salt_and_pepper(s: Subject) -> Peers:
    draw = np.random.default_rng(0)

    def numpy() -> np.ndarray:
        out, chance = s.array.copy(), draw.random(s.size, np.float32)
        out[chance < AMOUNT / 2] = 0
        out[chance > 1 - AMOUNT / 2] = 255
        return out

    return {"NumPy": numpy}


def channel_drop(s: Subject) -> Peers:
    out = s.blank()

    def numpy() -> np.ndarray:
        np.copyto(out, s.array)
        out[..., 2] = 0
        return out

    return {"NumPy": numpy}


def planes(s: Subject) -> Peers:
    out = np.empty((3, *s.size), s.array.dtype)
    channels = [out[0], out[1], out[2]]

    def numpy() -> np.ndarray:
        np.copyto(out, s.array.transpose(2, 0, 1))
        return out

    def opencv() -> np.ndarray:
        cv2.split(s.array, channels)
        return out

    return {"NumPy": numpy, "OpenCV": opencv}


def cast(s: Subject) -> Peers:
    out = np.empty((*s.size, 3), np.float32)

    def numpy() -> np.ndarray:
        np.copyto(out, s.array)
        return out

    return {"NumPy": numpy}


def canvas(height: int, width: int, top: int, left: int) -> Maker:
    """Return a maker for a black canvas with the image at an offset."""

    def make(s: Subject) -> Peers:
        rows, columns = s.size
        frame = (top, height - rows - top, left, width - columns - left, cv2.BORDER_CONSTANT)
        out = s.blank(height, width)
        return {"OpenCV": lambda: cv2.copyMakeBorder(s.array, *frame, dst=out)}

    return make


def letterbox(side: int) -> Maker:
    """Return a maker for a resize that keeps the aspect ratio, on a black square."""

    def make(s: Subject) -> Peers:
        rows, columns = s.size
        height = (2 * rows * side + columns) // (2 * columns)
        above = (side - height) // 2

        def pillow() -> Image.Image:
            done = Image.new("RGB", (side, side))
            done.paste(s.picture.resize((side, height), Image.Resampling.BILINEAR), (0, above))
            return done

        return {"Pillow": pillow}

    return make


def distortion(s: Subject) -> Peers:
    """Displace pixels smoothly, with a new map for each image, as for each sample."""
    rows, columns = s.size
    out, at = s.blank(), np.mgrid[:rows, :columns].astype(np.float32)
    noise = np.empty((rows, columns), np.float32)

    def moved(axis: int) -> np.ndarray:
        cv2.randn(noise, 0.0, 60.0)
        return at[axis] + cv2.GaussianBlur(noise, (0, 0), 8.0)

    return {"OpenCV": lambda: cv2.remap(s.array, moved(1), moved(0), cv2.INTER_LINEAR, out)}
