"""Multiply levels by a factor, with probability p: torchvision's adjust_brightness.

Draws: `stoker.ops.factor`. Arithmetic: `stoker.ops.color`, as the same step of color_jitter.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.ops.color import LOW, blend_with, fixed, plain_blend
from stoker.ops.contract import Kernel, Value
from stoker.ops.factor import FactorOp
from stoker.ops.pixelwise import begin
from stoker.ops.registry import register
from stoker.rng.jit import kernel


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    image = begin(src, dst)
    if record["apply"]:
        blend_with(image, fixed(record["factor"]), LOW)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        dst[...] = plain_blend(src.astype(np.int64), int(fixed(record["factor"])), 0)


@register
@dataclass(frozen=True)
class Brightness(FactorOp):
    """Multiply levels by a factor; parameters as `FactorOp`."""

    name: ClassVar[str] = "brightness"
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(_run, _plain, in_place=True)}


def brightness(
    *values: Value,
    factor_range: tuple[float, float] = (0.6, 1.4),
    p: float = 0.5,
    stream: str | None = None,
) -> Any:
    """Make images of a pipeline brighter or darker; see `Brightness`."""
    return Brightness(factor_range, p)(*values, stream=stream)
