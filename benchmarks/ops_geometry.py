"""Peers of the ops that move pixels. Each function returns its contenders by name."""

from collections.abc import Callable

import cv2
import numpy as np
from ops_subject import LESS, Peers, Subject
from PIL import Image, ImageOps

Maker = Callable[[Subject], Peers]
T = Image.Transpose
BOX = (37, 75, 300, 350)
"""Top, left, height and width of the crop that is resized, in 500x375."""
SIDE = 224
CORNERS = ((30, 20), (470, 10), (480, 350), (15, 360))
"""Targets of the corners of 500x375 in perspective: x and y, clockwise from the top left."""
ANGLE = 17.0


def horizontal_flip(s: Subject) -> Peers:
    out = s.blank()
    return {
        "OpenCV": lambda: cv2.flip(s.array, 1, out),
        "Pillow": lambda: s.picture.transpose(T.FLIP_LEFT_RIGHT),
        **s.torchvision(lambda f, x: f.horizontal_flip(x)),
    }


def vertical_flip(s: Subject) -> Peers:
    out = s.blank()
    return {
        "OpenCV": lambda: cv2.flip(s.array, 0, out),
        "Pillow": lambda: s.picture.transpose(T.FLIP_TOP_BOTTOM),
        **s.torchvision(lambda f, x: f.vertical_flip(x)),
    }


def transpose(s: Subject) -> Peers:
    out = s.blank(*s.size[::-1])
    return {
        "OpenCV": lambda: cv2.transpose(s.array, out),
        "Pillow": lambda: s.picture.transpose(T.TRANSPOSE),
    }


def rot90(quarters: int) -> Maker:
    """Return a maker for a number of quarter turns, counter-clockwise."""
    code = (cv2.ROTATE_90_COUNTERCLOCKWISE, cv2.ROTATE_180, cv2.ROTATE_90_CLOCKWISE)[quarters - 1]
    turn = (T.ROTATE_90, T.ROTATE_180, T.ROTATE_270)[quarters - 1]

    def make(s: Subject) -> Peers:
        out = s.blank(*(s.size if quarters == 2 else s.size[::-1]))
        return {
            "OpenCV": lambda: cv2.rotate(s.array, code, out),
            "Pillow": lambda: s.picture.transpose(turn),
        }

    return make


def crop(top: int, left: int, side: int) -> Maker:
    """Return a maker for a square crop at an offset."""

    def make(s: Subject) -> Peers:
        out = s.blank(side, side)
        window = s.array[top : top + side, left : left + side]

        def numpy() -> np.ndarray:
            np.copyto(out, window)
            return out

        return {
            "NumPy": numpy,
            "Pillow": lambda: s.picture.crop((left, top, left + side, top + side)),
        }

    return make


def pad(border: int) -> Maker:
    """Return a maker for a frame of 30 pixels, with an OpenCV border mode."""

    def make(s: Subject) -> Peers:
        height, width = s.size
        out = s.blank(height + 60, width + 60)
        frame = (30, 30, 30, 30, border)
        peers = {"OpenCV": lambda: cv2.copyMakeBorder(s.array, *frame, dst=out)}
        if border == cv2.BORDER_CONSTANT:
            peers["Pillow"] = lambda: ImageOps.expand(s.picture, 30)
        mode = {cv2.BORDER_CONSTANT: "constant", cv2.BORDER_REPLICATE: "edge"}.get(border)
        return {
            **peers,
            **s.torchvision(lambda f, x: f.pad(x, [30] * 4, padding_mode=mode or "reflect")),
        }

    return make


def resize(
    height: int, width: int, pillow: Image.Resampling, opencv: int, box: tuple[int, ...] = ()
) -> Maker:
    """Return a maker for a resize, of a box of the image if one is given.

    OpenCV filters only when it enlarges. When it shrinks, INTER_AREA is its antialiased resize: a
    box filter with different pixels at a lower cost. It is shown and not compared.
    """

    def make(s: Subject) -> Peers:
        top, left, rows, columns = box or (0, 0, *s.size)
        window = s.array[top : top + rows, left : left + columns]
        part = s.picture.crop((left, top, left + columns, top + rows)) if box else s.picture
        out = s.blank(height, width)
        size = (width, height)
        shrinks = rows > height or columns > width
        same = pillow == Image.Resampling.NEAREST or not shrinks
        peers: Peers = {"Pillow": lambda: part.resize(size, pillow)}
        if s.array.dtype == np.float32:
            planes = [Image.fromarray(plane) for plane in np.moveaxis(window, 2, 0)]
            peers["Pillow"] = lambda: np.dstack([plane.resize(size, pillow) for plane in planes])
        peers["OpenCV" + ("" if same else LESS)] = lambda: cv2.resize(
            window, size, out, interpolation=opencv
        )
        if not same:
            peers[f"OpenCV area{LESS}"] = lambda: cv2.resize(
                window, size, out, interpolation=cv2.INTER_AREA
            )
        name = pillow.name.lower().replace("nearest", "nearest_exact")
        tensor = s.as_tensor(np.ascontiguousarray(window))
        return {**peers, **s.torchvision(lambda f, _: f.resize(tensor, size[::-1], _mode(f, name)))}

    return make


def _mode(functional: object, name: str) -> object:
    """Return torchvision's name of an interpolation."""
    return getattr(functional.InterpolationMode, name.upper())  # type: ignore[attr-defined]


def rotate(bilinear: bool) -> Maker:
    """Return a maker for a rotation about the center."""
    flag = cv2.INTER_LINEAR if bilinear else cv2.INTER_NEAREST
    resample = Image.Resampling.BILINEAR if bilinear else Image.Resampling.NEAREST

    def make(s: Subject) -> Peers:
        height, width = s.size
        matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), ANGLE, 1.0)
        out = s.blank()
        mode = "bilinear" if bilinear else "nearest"
        return {
            "OpenCV": lambda: cv2.warpAffine(s.array, matrix, (width, height), out, flag),
            "Pillow": lambda: s.picture.rotate(ANGLE, resample),
            **s.torchvision(lambda f, x: f.rotate(x, ANGLE, _mode(f, mode))),
        }

    return make


def perspective(bilinear: bool) -> Maker:
    """Return a maker for a projection to `CORNERS`, of 500x375."""
    flag = cv2.INTER_LINEAR if bilinear else cv2.INTER_NEAREST
    resample = Image.Resampling.BILINEAR if bilinear else Image.Resampling.NEAREST

    def make(s: Subject) -> Peers:
        height, width = s.size
        start = [(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)]
        to = np.float32(CORNERS)
        matrix = cv2.getPerspectiveTransform(np.float32(start), to)
        inverse = np.linalg.inv(matrix)
        numbers = (inverse / inverse[2, 2]).ravel()[:8].tolist()
        out = s.blank()
        how = Image.Transform.PERSPECTIVE
        mode = "bilinear" if bilinear else "nearest"
        return {
            "OpenCV": lambda: cv2.warpPerspective(s.array, matrix, (width, height), out, flag),
            "Pillow": lambda: s.picture.transform((width, height), how, numbers, resample),
            **s.torchvision(
                lambda f, x: f.perspective(x, start, CORNERS, _mode(f, mode), fill=[0.0])
            ),
        }

    return make


def erase(top: int, left: int, height: int, width: int) -> Maker:
    """Return a maker for a copy with a black box."""

    def make(s: Subject) -> Peers:
        out = s.blank()

        def numpy() -> np.ndarray:
            np.copyto(out, s.array)
            out[top : top + height, left : left + width] = 0
            return out

        return {"NumPy": numpy}

    return make


def grid_mask(unit: int, hole: int) -> Maker:
    """Return a maker for a copy with a grid of black squares."""

    def make(s: Subject) -> Peers:
        out = s.blank()
        rows, columns = s.size

        def numpy() -> np.ndarray:
            np.copyto(out, s.array)
            for top in range(0, rows, unit):
                for left in range(0, columns, unit):
                    out[top : top + hole, left : left + hole] = 0
            return out

        return {"NumPy": numpy}

    return make
