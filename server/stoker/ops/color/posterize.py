"""Keep the upper bits of every level, with probability p, as torchvision's RandomPosterize."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import PixelOp, begin
from stoker.ops.contract import checks
from stoker.ops.contract.forms import Kernel
from stoker.ops.contract.op import Value
from stoker.ops.contract.registry import register


@kernel
def mask_levels(image: Any, mask: Any) -> None:
    """Keep the bits of a mask in every level of a flat image, in place."""
    for i in range(np.uint64(image.size)):
        image[i] = np.uint8(image[i] & mask)


@kernel
def mask_into(source: Any, image: Any, mask: Any) -> None:
    """Write the bits of a mask of every level of a flat image to other memory."""
    for i in range(np.uint64(image.size)):
        image[i] = np.uint8(source[i] & mask)


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    mask = np.uint8(params["mask"])
    if record["apply"] and src.ctypes.data != dst.ctypes.data:
        mask_into(src.reshape(src.size), dst.reshape(dst.size), mask)
    else:
        image = begin(src, dst)
        if record["apply"]:
            mask_levels(image, mask)


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src & params["mask"] if record["apply"] else src


@register
@dataclass(frozen=True)
class Posterize(PixelOp):
    """Keep the upper bits of every level.

    Attributes:
        bits: the number of bits to keep, from 0 (black) to 8 (all).
        p: probability.
    """

    bits: int = 4
    p: float = 0.5

    name: ClassVar[str] = "posterize"
    of_levels = True
    clips_floats = True
    examples = ({"p": 0.5}, {"bits": 2, "p": 1})
    picture = {"bits": 2}
    parameters: ClassVar[np.dtype[Any]] = np.dtype([("mask", "u1"), ("p", "f8")])
    kernels: ClassVar[dict[str, Kernel]] = {"image": Kernel(_run, _plain, in_place=True)}

    def check(self) -> None:
        """Check the parameters."""
        self.settle(bits=checks.integer(self.name, "bits", self.bits, 0, 8))
        self.check_p()

    def params(self) -> np.ndarray:
        """Return the run-time parameters."""
        return np.array((256 - (1 << (8 - self.bits)), self.p), self.parameters)


def posterize(
    *values: Value, bits: int = 4, p: float = 0.5, stream: str | None = None, relative: bool = False
) -> Any:
    """Keep the upper bits of images of a pipeline; see `Posterize`."""
    return Posterize(bits, p)(*values, stream=stream, relative=relative)
