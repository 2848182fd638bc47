"""Modules of torch for `Loader(on_device=[...])`; only who asks for them imports torch.

`Normalize` computes what `ops.normalize` computes in a pipeline, so that images travel as they are:
uint8 are a quarter of the bytes of float32 in the slot, over the network and to the device.
"""

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Final

import torch

from stoker.protocol.errors import UsageError

IMAGENET_MEAN: Final = (0.485, 0.456, 0.406)
IMAGENET_STD: Final = (0.229, 0.224, 0.225)
LAYOUTS: Final = ("HWC", "CHW")
DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)
LEVELS: Final = {torch.uint8: 255.0, torch.uint16: 65535.0}
"""Dtype of an image that counts in levels -> the level that is 1.0."""
CHANNELS: Final = 16
"""The most that images have, as in pipelines."""


class Normalize(torch.nn.Module):
    """Turn images (rows, height, width, channels) into normalized floats.

    For each channel it is (level - 255*mean) * (1 / (255*std)), and for uint16 65535 takes the
    place of 255. Images of other dtypes have numbers of their own: (x - mean) * (1 / std). The
    constants are rounded once, to float32; then it is one subtraction and one multiplication, as in
    `ops.normalize`: the same bits, but for the bits of NaN, as long as nothing fuses the two
    (`torch.compile` may). float16 and bfloat16 are that float32, rounded.

    Args:
        mean: of x / 255, one number, or one for each channel.
        std: standard deviation of the same.
        layout: order of the result's sides: "HWC", or "CHW" for models of torch.
        dtype: of the result: torch.float32, torch.float16 or torch.bfloat16.
        memory_format: of a result in CHW: torch.contiguous_format, or torch.channels_last, which
            takes one pass less, since that is how images come.

    Raises:
        UsageError: an argument is wrong, or a batch does not have such images.
    """

    def __init__(
        self,
        mean: float | Sequence[float] = IMAGENET_MEAN,
        std: float | Sequence[float] = IMAGENET_STD,
        *,
        layout: str = "HWC",
        dtype: torch.dtype = torch.float32,
        memory_format: torch.memory_format = torch.contiguous_format,
    ) -> None:
        super().__init__()
        if layout not in LAYOUTS:
            raise UsageError(f"Normalize: layout={layout!r}: expected 'HWC' or 'CHW'")
        if dtype not in DTYPES:
            raise UsageError(f"Normalize: dtype={dtype!r}: expected {', '.join(map(str, DTYPES))}")
        if memory_format not in (torch.contiguous_format, torch.channels_last):
            raise UsageError(
                f"Normalize: memory_format={memory_format!r}: expected torch.contiguous_format or"
                " torch.channels_last"
            )
        if memory_format == torch.channels_last and layout == "HWC":
            raise UsageError(
                "Normalize: memory_format=torch.channels_last is for layout='CHW'; with 'HWC' the"
                " channels are last already"
            )
        self.mean, self.std = _numbers("mean", mean), _numbers("std", std)
        if min(self.std) <= 0:
            raise UsageError(f"Normalize: std={std!r}: expected numbers above 0")
        self.layout, self.dtype, self.memory_format = layout, dtype, memory_format
        means, deviations = (torch.tensor(n, dtype=torch.float64) for n in (self.mean, self.std))
        for most in (1.0, *LEVELS.values()):
            for name, numbers in (("mean", most * means), ("gain", 1.0 / (most * deviations))):
                self.register_buffer(f"_{name}_{most:.0f}", numbers.to(torch.float32), False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Normalize a batch of images.

        Args:
            images: (rows, height, width, channels), of any dtype.

        Returns:
            (rows, height, width, channels), or (rows, channels, height, width) in layout CHW.
        """
        most = LEVELS.get(images.dtype, 1.0)
        self._check(images, most)
        mean, gain = (getattr(self, f"_{name}_{most:.0f}") for name in ("mean", "gain"))
        result = images.to(torch.float32, copy=True).sub_(mean).mul_(gain)
        if self.layout == "CHW":
            result = result.permute(0, 3, 1, 2)
        return result.to(self.dtype).contiguous(memory_format=self.memory_format)

    def _check(self, images: torch.Tensor, most: float) -> None:
        shape = tuple(images.shape)
        if len(shape) != 4 or shape[-1] > CHANNELS:
            raise UsageError(
                f"Normalize: expected images (rows, height, width, channels) of 1 to {CHANNELS}"
                f" channels, got {shape}; leave out layout='CHW' and ops.layout in the pipeline,"
                " or name the output that has the images: on_device={NAME: [...]}"
            )
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (1, shape[-1]):
                raise UsageError(
                    f"Normalize: expected {name} to be one number, or one for each of the"
                    f" {shape[-1]} channels of {shape}, got {len(numbers)} numbers {numbers}"
                )
        if most > 1 and max(*map(abs, self.mean), *self.std) > 1:
            raise UsageError(
                f"Normalize: mean={self.mean} and std={self.std} are on the scale of levels, but"
                f" they count from 0 to 1, as torchvision's: divide both by {most:.0f}"
            )

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (
            f"mean={self.mean}, std={self.std}, layout={self.layout!r}, dtype={self.dtype},"
            f" memory_format={self.memory_format}"
        )


def _numbers(name: str, given: float | Sequence[float]) -> tuple[float, ...]:
    values = tuple(given) if isinstance(given, Iterable) else (given,)
    real = all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
    found = tuple(map(float, values)) if real else ()
    finite = all(abs(value) < float("inf") for value in found)
    if not 1 <= len(found) <= CHANNELS or not finite:
        raise UsageError(
            f"Normalize: {name}={given!r}: expected a number, or one for each of at most {CHANNELS}"
            " channels"
        )
    return found
