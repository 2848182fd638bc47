"""Raise levels to a power, with probability p, as torchvision's adjust_gamma.

Draws: 0 applied if uniform < p; 1 gamma, uniform in its range. Each of the 256 levels is computed
once: 255 * (x / 255) ** gamma, as floor(255 * exp(gamma * log(x / 255)) + 0.5) with the exp and log
of `stoker.rng.maths`; 0 stays 0.

For floats `kernels.powers`; values not above 0, and NaN, become 0; 1 and above becomes 1.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, LEVELS, PixelOp, begin, look_up_all, plain_floats
from stoker.ops.bases.wide_floats import through_floats
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Interval, Probability, Range
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import LEVELS_FLOATS
from stoker.ops.contract.states import State
from stoker.ops.kernels.powers import plain_raised, raise_all
from stoker.rng.draws import bernoulli, uniform_range
from stoker.rng.maths import exp, floor, log

MOST: Final = 16.0
POWERS: Final = Interval(0.0, MOST)


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    record["gamma"] = uniform_range(key, 1, params["gamma_low"], params["gamma_high"])


@kernel
def fill_powers(gamma: float, table: Any) -> None:
    """Write the new level of each of the 256 levels."""
    table[0] = 0
    for x in range(1, LEVELS):
        table[x] = floor(255.0 * exp(gamma * log(x / 255.0)) + 0.5)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if record["apply"]:
        fill_powers(record["gamma"], scratch)
        look_up_all(src.reshape(src.size), dst.reshape(dst.size), scratch)
    else:
        begin(src, dst)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    table = np.arange(LEVELS, dtype=np.uint8)
    if record["apply"]:
        fill_powers(float(record["gamma"]), table)
    dst[...] = table[src]


@kernel
def _run_floats(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        raise_all(image, np.float32(record["gamma"]))


@plain_floats
def _plain_floats(image: np.ndarray, params: Any, record: Any) -> np.ndarray:
    return plain_raised(image, np.float32(record["gamma"]))


@register
class Gamma(PixelOp):
    """Raise levels to a power."""

    gamma_range: Annotated[Range, POWERS, "power; above 1 darkens"] = (0.8, 1.25)
    p: Probability = 0.5

    image_dtypes = LEVELS_FLOATS
    of_levels = True
    clips_floats = True
    examples = ({"p": 0.9}, {"gamma_range": (0.3, 3), "p": 0.5})
    picture = {"gamma_range": (2.0, 2.0)}
    record = np.dtype([("gamma", "f8"), APPLY])
    kernels = {"image": Kernel(_run, _plain, in_place=True)}
    floats = {"image": Kernel(_run_floats, _plain_floats, in_place=True)}
    wide = through_floats(floats["image"])
    draw = staticmethod(_draw)

    def scratch(self, state: State) -> int:
        """Return the bytes of the table."""
        return LEVELS


gamma = function(Gamma)
