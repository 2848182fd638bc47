"""Turn an image into normalized floats: (level - 255*mean) * (1 / (255*std)), each channel.

Mean and standard deviation are in units of x / 255, as torchvision's. 255*mean and 1 / (255*std)
are computed in float64 and rounded once to float32; then every value is one float32 subtraction and
one float32 multiplication, which cannot be fused. For an image of uint16 65535 takes the place of
255. For an image of floats or of int16, in its own numbers, it is (x - mean) * (1 / std), mean and
1 / std rounded to float32, and every NaN becomes the same NaN (`kernels.float_levels`). float16
rounds that float32 to nearest, halves to even. Layout CHW writes one plane for each channel.
float32 in HWC remains an image: ops that move pixels accept it, ops that change colors do not.
Everything else becomes an array. No randomness.

Kernels see a float16 result as uint16 bits, see `stoker.ops.contract.states.storage`.
"""

from dataclasses import replace
from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op import Op
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import ChannelNumbers, PerChannel, Word
from stoker.ops.contract.registry import register
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.rules import ANY_DTYPE, MAX_CHANNELS, require_image
from stoker.ops.contract.states import State, StateError
from stoker.ops.kernels.float_levels import plain_number, settle
from stoker.ops.kernels.half import narrow_run, to_halves
from stoker.ops.kernels.runs import SIXTEEN, flat, planes16

DTYPES: Final = ("float32", "float16")
LAYOUTS: Final = ("HWC", "CHW")
CONSTANTS: Final = ("mean", "gain", "float_mean", "float_gain", "wide_mean", "wide_gain")
POSITIVE: Final = ChannelNumbers(positive=True)
MEANING: Final = "mean of x / 255, or of x of images of floats and of int16"
IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)
ZERO: Final = np.uint64(0)
K1: Final = np.uint64(1)
K2: Final = np.uint64(2)
K3: Final = np.uint64(3)


@kernel
def scaled(level: Any, mean: Any, gain: Any) -> Any:
    """Normalize one level; mean and gain are in levels, or in floats like the level."""
    return (np.float32(level) - mean) * gain


@kernel
def line_hwc(src: Any, at: Any, count: Any, means: Any, gains: Any, out: Any, to: Any) -> None:
    """Normalize one row in its own order; means and gains are repeated along it."""
    for i in range(count):
        out[to + i] = scaled(src[at + i], means[i], gains[i])


@kernel
def line_chw(
    src: Any, at: Any, width: Any, channels: int, constants: Any, out: Any, to: Any, plane: Any
) -> None:
    """Normalize one row into one run for each channel, `plane` values apart."""
    mean, gain = constants
    if channels == 3:
        m0, m1, m2 = mean[0], mean[1], mean[2]
        g0, g1, g2 = gain[0], gain[1], gain[2]
        for x in range(width):
            k = at + K3 * x
            out[to + x] = scaled(src[k], m0, g0)
            out[to + plane + x] = scaled(src[k + K1], m1, g1)
            out[to + K2 * plane + x] = scaled(src[k + K2], m2, g2)
    else:
        for c in range(channels):
            m, g = mean[c], gain[c]
            start = to + np.uint64(c) * plane
            for x in range(width):
                out[start + x] = scaled(src[at + np.uint64(channels) * x + np.uint64(c)], m, g)


@kernel
def _floats(scratch: Any, number: int, count: int) -> Any:
    size = (4 * count + 63) // 64 * 64
    return scratch[number * size : number * size + 4 * count].view(np.float32)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    constants, half = (params["mean"], params["gain"]), params["half"]
    if not params["planar"]:
        _run_packed(src, dst, constants, half, scratch)
    elif half:
        _half_planes(src, dst, constants, scratch)
    else:
        _to_planes(src, constants, flat(dst))


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _run_other(src, dst, (params["float_mean"], params["float_gain"]), params, scratch)
    if not params["half"]:
        result = flat(dst)
        settle(result, ZERO, np.uint64(result.size))


@kernel
def _run_wide(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _run_other(src, dst, (params["wide_mean"], params["wide_gain"]), params, scratch)


@kernel
def _run_signed(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    _run_other(src, dst, (params["float_mean"], params["float_gain"]), params, scratch)


@kernel
def _run_other(src: Any, dst: Any, constants: Any, params: Any, scratch: Any) -> None:
    """Normalize an image of another dtype than uint8; a NaN stays as it is."""
    half = params["half"]
    if not params["planar"]:
        _run_packed(src, dst, constants, half, scratch)
    elif half:
        _half_planes(src, dst, constants, scratch)
    else:
        plane = np.uint64(src.shape[0] * src.shape[1])
        line_chw(flat(src), ZERO, plane, src.shape[2], constants, flat(dst), ZERO, plane)


@kernel
def _run_packed(src: Any, dst: Any, constants: Any, half: Any, scratch: Any) -> None:
    height, width, channels = src.shape
    mean, gain = constants
    size = width * channels
    count = np.uint64(size)
    line = _floats(scratch, 0, size)
    means, gains = _floats(scratch, 1, size), _floats(scratch, 2, size)
    for i in range(size):
        means[i], gains[i] = mean[i % channels], gain[i % channels]
    image, result = flat(src), flat(dst)
    for y in range(height):
        at = np.uint64(y * size)
        if half:
            line_hwc(image, at, count, means, gains, line, ZERO)
            narrow_run(line, ZERO, count, result, at)
        else:
            line_hwc(image, at, count, means, gains, result, at)


@kernel
def _to_planes(src: Any, constants: Any, result: Any) -> None:
    """Normalize levels into planes of float32; rows are adjacent, so they are one."""
    pixels, channels = src.shape[0] * src.shape[1], src.shape[2]
    image, done, plane = flat(src), 0, np.uint64(pixels)
    if channels == 3:
        mean, gain = constants
        means, gains = (mean[0], mean[1], mean[2]), (gain[0], gain[1], gain[2])
        done = pixels // SIXTEEN * SIXTEEN
        for at in range(0, done, SIXTEEN):
            planes16(image, 3 * at, means, gains, result, at, pixels)
    rest = np.uint64(pixels - done)
    first, to = np.uint64(done * channels), np.uint64(done)
    line_chw(image, first, rest, channels, constants, result, to, plane)


@kernel
def _half_planes(src: Any, dst: Any, constants: Any, scratch: Any) -> None:
    """Normalize into planes of float16, row by row."""
    height, width, channels = src.shape
    line = _floats(scratch, 0, width * channels)
    image, result = flat(src), flat(dst)
    count, plane = np.uint64(width), np.uint64(height * width)
    for y in range(height):
        at, to = np.uint64(y * width * channels), np.uint64(y * width)
        line_chw(image, at, count, channels, constants, line, ZERO, count)
        for c in range(np.uint64(channels)):
            narrow_run(line, c * count, count, result, to + c * plane)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    channels = src.shape[2]
    prefix = {"float32": "float_", "int16": "float_", "uint16": "wide_"}.get(src.dtype.name, "")
    mean, gain = (np.asarray(params[f"{prefix}{name}"])[:channels] for name in ("mean", "gain"))
    with np.errstate(all="ignore"):
        values = (src.astype(np.float32) - mean) * gain
    if src.dtype == np.float32:
        values = plain_number(values)
    if params["planar"]:
        values = values.transpose(2, 0, 1)
    if params["half"]:
        dst[...] = to_halves(values)
    else:
        dst[...] = values


@register
class Normalize(Op):
    """Turn an image into normalized floats."""

    mean: Annotated[PerChannel, ChannelNumbers(), MEANING] = IMAGENET_MEAN
    std: Annotated[PerChannel, POSITIVE, "standard deviation of the same"] = IMAGENET_STD
    dtype: Annotated[str, Word(DTYPES), "dtype of the result"] = "float32"
    layout: Annotated[str, Word(LAYOUTS), "order of the result's sides"] = "HWC"

    image_dtypes = ANY_DTYPE
    of_levels = True
    examples = (
        {},
        {"dtype": "float16"},
        {"layout": "CHW"},
        {"mean": 0.5, "std": 1e-7, "dtype": "float16", "layout": "CHW"},
        {"mean": (0.1, 0.2, 0.3, 0.4), "std": (3e4, 3, 5e4, 1)},
    )
    parameters = np.dtype(
        [
            *((name, "f4", (MAX_CHANNELS,)) for name in CONSTANTS),
            *((name, "u1") for name in ("half", "planar")),
        ]
    )
    kernels = {"image": Kernel(_run, _plain)}
    rescale = staticmethod(keep_record)
    floats = {"image": Kernel(_run_floats, _plain)}
    wide = {"image": Kernel(_run_wide, _plain)}
    signed = {"image": Kernel(_run_signed, _plain)}

    def params(self) -> np.ndarray:
        """Return the constants for each dtype of images, and two switches."""
        mean, std = np.array(self.mean), np.array(self.std)
        constants = (
            *(255.0 * mean, 1.0 / (255.0 * std)),
            *(mean, 1.0 / std),
            *(65535.0 * mean, 1.0 / (65535.0 * std)),
        )
        each = (np.resize(numbers, MAX_CHANNELS) for numbers in constants)
        return np.array((*each, self.dtype == "float16", self.layout == "CHW"), self.parameters)

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return states with the requested dtype and layout."""
        self.require_kinds(states)
        need = 0
        for state in states:
            require_image(self.name, state, self.image_dtypes, self.image_channels)
            self._require_channels(state)
            need = max(need, 3 * ((4 * state.bound[1] * state.bound[2] + 63) // 64 * 64))
        return tuple(self._after(state) for state in states), need

    def _after(self, state: State) -> State:
        if (self.dtype, self.layout) == ("float32", "HWC"):
            return replace(state, dtype="float32")
        order = (2, 0, 1) if self.layout == "CHW" else (0, 1, 2)
        shape, bound = (tuple(side[i] for i in order) for side in (state.shape, state.bound))
        return State("array", self.dtype, shape, bound)  # type: ignore[arg-type]

    def _require_channels(self, state: State) -> None:
        for parameter in ("mean", "std"):
            values = getattr(self, parameter)
            if len(values) not in (1, state.shape[2]):
                raise StateError(
                    f"{self.name}: expected {parameter} to be one number, or one for each channel "
                    f"of {state}, got {len(values)} numbers {values}",
                    op=self.name,
                )


normalize = function(Normalize)
