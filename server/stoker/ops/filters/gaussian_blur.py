"""Blur with a Gaussian window, with probability p, as torchvision's GaussianBlur.

Draws: 0 applied if uniform < p; 1 sigma, uniform in its range. Weight i of the window is
floor(2**16 * g(i) + 0.5), g(i) = exp(-(i / sigma)**2 / 2) over the sum of the window; the middle
weight is adjusted so that the sum is 2**16. Sums, rounding and edges:
`stoker.ops.kernels.windows`.

For floats weight i is g(i) rounded to float32, the middle one being 1 less all others, in float64.
Sums and edges: `stoker.ops.kernels.windows_floats`.
"""

from typing import Annotated, Any, ClassVar, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin, plain_floats
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameter_limits import refuse
from stoker.ops.contract.parameters import Interval, OwnRule, Probability, Range, Whole
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import FLOAT, LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.resample import padded
from stoker.ops.kernels.windows import UNIT, plain_smooth, smooth
from stoker.ops.kernels.windows_floats import plain_smooth_floats, smooth_bytes, smooth_floats
from stoker.rng.draws import bernoulli, uniform_range
from stoker.rng.maths import exp, floor

LARGEST: Final = 63


def _odd(op: str, value: object) -> int:
    size: int = Whole(1, LARGEST).check(op, "kernel_size", value)
    if size % 2 == 0:
        raise refuse(op, "kernel_size", "odd", size)
    return size


SIGMA: Final = Interval(0.0, 1000.0)
SIZE: Final = OwnRule(
    _odd, f"an odd integer from 1 to {LARGEST}", (("kernel_size", "i4"),), lambda size: (size,)
)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["sigma"] = uniform_range(key, 1, params["sigma_low"], params["sigma_high"])


@kernel
def bell(i: int, sigma: float) -> float:
    """Return the Gaussian at distance i, 1 in the middle."""
    x = i / sigma
    return exp(-0.5 * x * x)


@kernel
def bell_sum(sigma: float, count: int) -> float:
    """Return the Gaussian at distance 0, plus twice that at distances 1, ..., count - 1."""
    total = 1.0
    for i in range(1, count):
        total += 2.0 * bell(i, sigma)
    return total


@kernel
def fill_bell(sigma: float, weights: Any) -> None:
    """Write the weights of distances 0, 1, ..., in units of 2**-16."""
    total = bell_sum(sigma, len(weights))
    rest = UNIT
    for i in range(1, len(weights)):
        weight = floor(bell(i, sigma) / total * 65536.0 + 0.5)
        weights[i] = weight
        rest -= 2 * weight
    weights[0] = rest


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        _, width, channels = src.shape
        radius = np.int64(params["kernel_size"] // 2)
        sums_at = 4 * (radius + 1)
        row_at = sums_at + 4 * width * channels
        end = row_at + 2 * (width + 2 * radius) * channels
        weights = scratch[:sums_at].view(np.uint32)
        fill_bell(record["sigma"], weights)
        row = scratch[row_at:end].view(np.uint16)
        smooth(src, dst, weights, row, scratch[sums_at:row_at].view(np.uint32))
    else:
        begin(src, dst)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    weights = np.zeros(int(params["kernel_size"]) // 2 + 1, np.int64)
    fill_bell(float(record["sigma"]), weights)
    dst[...] = plain_smooth(src, weights) if record["apply"] else src


@kernel
def fill_bell_floats(sigma: float, weights: Any) -> None:
    """Write the weights of distances 0, 1, ..., float32, for images of floats."""
    total, rest = bell_sum(sigma, len(weights)), 1.0
    for i in range(1, len(weights)):
        weights[i] = bell(i, sigma) / total
        rest -= 2.0 * np.float64(weights[i])
    weights[0] = rest


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        end = 4 * (int(params["kernel_size"]) // 2 + 1)
        weights = scratch[:end].view(np.float32)
        fill_bell_floats(record["sigma"], weights)
        smooth_floats(src, dst, weights, scratch[padded(end) :])
    else:
        begin(src, dst)


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    weights = np.zeros(int(params["kernel_size"]) // 2 + 1, np.float32)
    fill_bell_floats(float(record["sigma"]), weights)
    return plain_smooth_floats(image, weights)


@register
class GaussianBlur(PixelOp):
    """Blur with a Gaussian window."""

    kernel_size: Annotated[int, SIZE, "side of the window in pixels, odd"] = 5
    sigma_range: Annotated[Range, SIGMA, "standard deviation, in pixels"] = (0.1, 2.0)
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    examples = ({"p": 0.9}, {"kernel_size": 23, "sigma_range": (1, 9), "p": 0.5})
    picture = {"kernel_size": 15, "sigma_range": (3, 3)}
    record = np.dtype([("sigma", "f8"), APPLY])
    kernels = {"image": Kernel(_run, _plain)}
    floats = {"image": Kernel(_run_floats, _plain_floats)}
    wide = through_floats(floats["image"])
    draw = staticmethod(_draw)
    rescale: ClassVar[None] = None
    units = {"sigma": "px"}

    def scratch(self, state: State) -> int:
        """Return the bytes of the weights, a row of sums, and a row with both ends mirrored."""
        radius, line = self.kernel_size // 2, state.bound[1] * state.bound[2]
        if state.dtype == FLOAT:
            return padded(4 * (radius + 1)) + smooth_bytes(state.bound[1], state.bound[2], radius)
        return 4 * (radius + 1) + 4 * line + 2 * (line + 2 * radius * state.bound[2])


gaussian_blur = function(GaussianBlur)
