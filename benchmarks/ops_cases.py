"""The cases of the ops benchmark: op, parameters, decision and peers.

An entry is one op, its parameters, its decision (fields of its record), and a function that makes
its contenders. Sizes are those of the image, 500x375 or 224x224.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import ops_color as color
import ops_filters as filters
import ops_geometry as geometry
from ops_subject import Peers, Subject
from PIL import Image

from stoker.ops import Op, State, make
from stoker.ops.contract.states import storage
from stoker.pipeline.compiled.kernel_calls import kernel_of
from stoker.pipeline.compiled.loop_instructions import LINE

R = Image.Resampling
PHOTO, SQUARE = (375, 500), (224, 224)
BOTH = (PHOTO, SQUARE)
APPLIED = {"apply": 1}
FACTOR = {"factor": color.FACTOR, **APPLIED}
JITTERED = {
    **dict.fromkeys(("brightness", "contrast", "saturation"), color.FACTOR),
    "hue": color.TURN,
    "order": (0, 1, 2, 3),
}
LIMITED = {"limit": color.CLIP_LIMIT, **APPLIED}


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes:
        op: name of the op.
        parameters: its parameters.
        decided: fields of its record.
        peers: makes the other contenders.
        note: distinguishes the lines of one op.
        sizes: sizes of the images.
        form: image, gray (an image of one channel) or mask.
        dtype: dtype of the image, uint8 or float32.
    """

    op: str
    parameters: dict[str, Any]
    decided: dict[str, Any]
    peers: Any
    note: str = ""
    sizes: tuple[tuple[int, int], ...] = BOTH
    form: str = "image"
    dtype: str = "uint8"

    def contenders(self, subject: Subject) -> Peers:
        """Return all contenders, Stoker's own as `Stoker`."""
        shown = {"image": subject, "gray": subject.gray, "mask": subject.mask}[self.form]
        shown = shown.floats if self.dtype == "float32" else shown
        kind = "mask" if self.form == "mask" else "image"
        ours = Prepared(make(self.op, self.parameters), self.decided, shown.array, kind)
        return {"Stoker": ours, **self.peers(shown)}


@dataclass
class Prepared:
    """A kernel with all its arguments, called from Python.

    The call works like that of a pipeline's loop: by the address of the machine code and those of
    the values. numba would need a microsecond to unpack each of the two records, which no pipeline
    unpacks. Many ops on small masks take less than that.
    """

    op: Op
    decided: dict[str, Any]
    source: np.ndarray
    kind: str = "image"

    def __post_init__(self) -> None:
        before = State.fixed(self.kind, self.source.dtype.name, self.source.shape)
        (after,), need = self.op.declare((before,))
        self.states = before, after
        self.params, self.record = np.zeros(1, self.op.parameters), np.zeros(1, self.op.record)
        self.params[0] = self.op.params()[()]
        for name, value in self.decided.items():
            self.record[name][0] = value
        height, width = self.source.shape[:2]
        size = self.op.out_size(self.params[0], self.record[0], height, width)
        shape = (*size, *after.bound[2:]) if after.kind == self.kind else after.bound
        self.result = np.empty(shape, storage(after.dtype))
        self.scratch = aligned(need)
        self.lines = np.zeros((2, LINE), np.int64)

    @functools.cached_property
    def call(self) -> Callable[[], None]:
        """Compile or load the kernel; return a function that runs it."""
        from stoker.jit.compiling import compiled  # noqa: PLC0415 - loads numba
        from stoker.pipeline.compiled.by_address import call_kernel  # noqa: PLC0415
        from stoker.pipeline.compiled.machine import address_of  # noqa: PLC0415

        values = []
        for line, array in zip(self.lines, (self.source, self.result), strict=True):
            line[: 1 + array.ndim] = (array.ctypes.data, *array.shape)
            values.append((line.ctypes.data, array.itemsize))
        return functools.partial(
            compiled(call_kernel),
            address_of(kernel_of(type(self.op), self.kind, *self.states)),
            8 * self.source.ndim + self.result.ndim,
            *values,
            (self.params.ctypes.data, self.record.ctypes.data),
            (self.scratch.ctypes.data, self.scratch.size, 1),
        )

    def __call__(self) -> None:
        self.call()

    def plain(self) -> np.ndarray:
        """Return the result of the op's NumPy reference for the same input."""
        kernel = self.op.kernel_of(self.kind, self.states[0].dtype)
        kernel.plain(self.source, self.result, self.params[0], self.record[0], None)
        return self.result


def aligned(size: int) -> np.ndarray:
    """Return scratch memory as engines provide it: aligned to 64 bytes."""
    whole = np.empty(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


def resizes() -> list[Case]:
    """Return the cases of resizes, and of ops that resize."""
    top, left, rows, columns = geometry.BOX
    part = {"top": top, "left": left, "height": rows, "width": columns}
    cases = [
        Case(
            "random_resized_crop",
            {"size": geometry.SIDE, "interpolation": name},
            part,
            geometry.resize(geometry.SIDE, geometry.SIDE, pillow, opencv, geometry.BOX),
            f"350x300 to 224x224, {name}",
            (PHOTO,),
        )
        for name, pillow, opencv in (
            ("bilinear", R.BILINEAR, cv2.INTER_LINEAR),
            ("bicubic", R.BICUBIC, cv2.INTER_CUBIC),
            ("nearest", R.NEAREST, cv2.INTER_NEAREST_EXACT),
        )
    ]
    for side in (160, 640):
        for name, pillow, opencv in (
            ("bilinear", R.BILINEAR, cv2.INTER_LINEAR),
            ("bicubic", R.BICUBIC, cv2.INTER_CUBIC),
            ("nearest", R.NEAREST, cv2.INTER_NEAREST_EXACT),
        ):
            peers = geometry.resize(side, side, pillow, opencv)
            parameters = {"size": (side, side), "interpolation": name}
            cases.append(Case("resize", parameters, {}, peers, f"to {side}x{side}, {name}"))
    peers = geometry.resize(192, 256, R.BILINEAR, cv2.INTER_LINEAR)
    cases.append(Case("resize_long", {"size": 256}, {}, peers, "to 256", (PHOTO,)))
    peers = geometry.resize(256, 341, R.BILINEAR, cv2.INTER_LINEAR)
    cases.append(
        Case("resize_short", {"size": 256, "max_size": 400}, {}, peers, "to 256", (PHOTO,))
    )
    return cases


def moves() -> list[Case]:
    """Return the cases of ops that move pixels without filtering, and of warps."""
    flat = {0: "constant", 1: "edge", 2: "reflect"}
    borders = (cv2.BORDER_CONSTANT, cv2.BORDER_REPLICATE, cv2.BORDER_REFLECT_101)
    corners = np.ravel(geometry.CORNERS)
    angle = {"degrees": 30, "interpolation": "bilinear"}
    turned = {"angle": geometry.ANGLE}
    return [
        Case("horizontal_flip", {}, {"flip": 1}, geometry.horizontal_flip),
        Case("vertical_flip", {}, {"flip": 1}, geometry.vertical_flip),
        Case("mirror", {}, {}, geometry.horizontal_flip, "left and right"),
        Case("mirror", {"axis": "vertical"}, {}, geometry.vertical_flip, "top and bottom"),
        Case("transpose", {}, {"swap": 1}, geometry.transpose),
        *(
            Case("rot90", {}, {"turns": k}, geometry.rot90(k), f"{90 * k} degrees")
            for k in (1, 2, 3)
        ),
        Case("center_crop", {"size": 200}, {}, geometry.crop(88, 150, 200), "200", (PHOTO,)),
        Case(
            "corner_crop",
            {"size": 200, "corner": "bottom_right"},
            {},
            geometry.crop(175, 300, 200),
            "200",
            (PHOTO,),
        ),
        Case(
            "random_crop",
            {"size": 200},
            {"top": 60, "left": 40},
            geometry.crop(60, 40, 200),
            "200",
            (PHOTO,),
        ),
        *(
            Case("pad", {"padding": 30, "mode": flat[i]}, {}, geometry.pad(border), flat[i])
            for i, border in enumerate(borders)
        ),
        *(
            Case(op, {**angle, "interpolation": name}, decided, peers(name == "bilinear"), name)
            for op, decided, peers in (
                ("rotate", turned, geometry.rotate),
                ("affine", {"angle": -geometry.ANGLE, "scale": 1.0}, geometry.rotate),
            )
            for name in ("bilinear", "nearest")
        ),
        *(
            Case(
                "perspective",
                {"interpolation": name},
                {"applied": 1, "corners": corners},
                geometry.perspective(name == "bilinear"),
                name,
                (PHOTO,),
            )
            for name in ("bilinear", "nearest")
        ),
        Case(
            "erase",
            {"fill": 0},
            {"top": 50, "left": 60, "height": 90, "width": 70, **APPLIED},
            geometry.erase(50, 60, 90, 70),
        ),
        Case(
            "grid_mask",
            {"fill": 0},
            {"unit": 40, "hole": 20, **APPLIED},
            geometry.grid_mask(40, 20),
        ),
    ]


def levels() -> list[Case]:
    """Return the cases of ops that change levels."""
    return [
        Case("brightness", {}, FACTOR, color.brightness),
        Case("contrast", {}, FACTOR, color.contrast),
        Case("saturation", {}, FACTOR, color.saturation),
        Case("hue", {}, {"turn": color.TURN, **APPLIED}, color.hue),
        Case("color_jitter", {}, JITTERED, color.color_jitter, "all four"),
        Case("grayscale", {}, APPLIED, color.grayscale),
        Case("to_gray", {}, {}, color.to_gray),
        Case("to_rgb", {}, {}, color.to_rgb, "of gray", form="gray"),
        Case("invert", {}, APPLIED, color.invert),
        Case("solarize", {"threshold": 128}, APPLIED, color.solarize),
        Case("posterize", {"bits": 4}, APPLIED, color.posterize),
        Case("gamma", {}, {"gamma": color.GAMMA, **APPLIED}, color.gamma),
        Case("equalize", {}, APPLIED, color.equalize),
        Case("autocontrast", {}, APPLIED, color.autocontrast),
        Case("clahe", {"tiles": color.TILES}, LIMITED, color.clahe, "8x8 tiles"),
        Case("channel_shuffle", {}, {"order": (2, 0, 1, 3), **APPLIED}, color.channel_shuffle),
        Case("sharpness", {}, FACTOR, color.sharpness),
        *(
            Case(
                "gaussian_blur",
                {"kernel_size": size, "sigma_range": (sigma, sigma)},
                {"sigma": sigma, **APPLIED},
                color.gaussian_blur(size, sigma),
                f"window of {size}",
            )
            for size, sigma in ((5, 1.1), (23, 5.0))
        ),
        Case(
            "gaussian_noise",
            {},
            {"seed": (1, 2), "sigma": color.SIGMA, **APPLIED},
            color.gaussian_noise,
        ),
        *(
            Case(
                "normalize",
                {"dtype": dtype, "layout": layout},
                {},
                color.normalize(dtype == "float16", layout == "CHW"),
                f"{dtype} {layout}",
            )
            for dtype in ("float32", "float16")
            for layout in ("HWC", "CHW")
        ),
    ]


def filtered() -> list[Case]:
    """Return the cases of filters, noise, color spaces, layouts and canvases."""
    window = {"size_range": (3, 15)}
    hsv, rgb = cv2.COLOR_RGB2HSV, cv2.COLOR_HSV2RGB
    noise = {"seed": (1, 2), **APPLIED}
    side = 700
    return [
        Case("box_blur", window, {"size": 7, **APPLIED}, filters.box_blur(7), "window of 7"),
        *(
            Case(
                "median_blur",
                window,
                {"size": size, **APPLIED},
                filters.median_blur(size),
                f"window of {size}",
            )
            for size in (3, 5)
        ),
        Case(
            "motion_blur",
            window,
            {"size": 7, "angle": geometry.ANGLE, **APPLIED},
            filters.motion_blur(7),
            "window of 7",
        ),
        Case("rgb_to_hsv", {}, {}, filters.convert(hsv)),
        Case("hsv_to_rgb", {}, {}, filters.convert(rgb)),
        Case("rgb_to_ycbcr", {}, {}, filters.convert(cv2.COLOR_RGB2YCrCb, "YCbCr")),
        Case("ycbcr_to_rgb", {}, {}, filters.from_ycbcr),
        Case(
            "jpeg_compression",
            {},
            {"quality": filters.QUALITY, **APPLIED},
            filters.jpeg_compression,
        ),
        Case("salt_and_pepper", {}, {"amount": filters.AMOUNT, **noise}, filters.salt_and_pepper),
        Case(
            "channel_drop",
            {},
            {"count": 1, "order": (2, 0, 1, 3), **APPLIED},
            filters.channel_drop,
        ),
        Case("layout", {"order": "CHW"}, {}, filters.planes),
        Case("cast", {"dtype": "float32"}, {}, filters.cast),
        Case("letterbox", {"size": geometry.SIDE}, {}, filters.letterbox(geometry.SIDE)),
        Case("pad_to_size", {"size": side}, {}, filters.canvas(side, side, 0, 0)),
        Case(
            "zoom_out",
            {},
            {"top": 90, "left": 70, "height": side, "width": side},
            filters.canvas(side, side, 90, 70),
        ),
        Case("elastic", {}, {"amount": 8.0, **noise}, filters.distortion),
        Case("grid_distortion", {}, APPLIED, filters.distortion),
    ]


def masks() -> list[Case]:
    """Return the cases of ops that move pixels, on masks: nearest, one channel."""
    return [
        replace(case, note=f"mask{', ' * bool(case.note)}{case.note}", form="mask")
        for case in (*resizes(), *moves())
        if case.parameters.get("interpolation", "nearest") == "nearest"
        and case.op not in ("resize_long", "resize_short")
    ]


def all_cases() -> list[Case]:
    """Return the cases of all lines of the table."""
    return [*moves(), *resizes(), *masks(), *levels(), *filtered()]
