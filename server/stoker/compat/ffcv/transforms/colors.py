"""Changes of brightness, contrast and saturation, with FFCV's formulas.

Each image is blended with another one: black, its mean gray, or its gray image. With probability p
the share of the image is drawn from [max(0, 1 - magnitude), 1 + magnitude]; levels are clipped to
0 to 255 and rounded down. All work in place on arrays (H, W, C), RGB where gray is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from stoker.compat.ffcv.pipeline.allocation_query import Allocation
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.protocol.errors import BuildError, UsageError

RED: Final = 0.2989
GREEN: Final = 0.587
BLUE: Final = 0.114


class _Change(Operation):
    """Base: the parameters, and the check of the image.

    Args:
        magnitude: how far the share of the image may be from 1.
        p: probability.

    Raises:
        UsageError: magnitude is negative, or p is not a probability.
    """

    def __init__(self, magnitude: float, p: float = 0.5) -> None:
        self.magnitude = magnitude
        self.p = p
        self._check()

    def _check(self) -> None:
        if not self.magnitude >= 0.0 or not 0.0 <= self.p <= 1.0:
            raise UsageError(
                f"{type(self).__name__}: expected magnitude from 0 and p from 0 to 1, got "
                f"{self.magnitude!r} and {self.p!r}"
            )

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the same state; works in place.

        Raises:
            BuildError: it does not get uint8 RGB images as arrays.
            UsageError: a parameter was set to a value without a meaning.
        """
        self._check()
        shape = previous_state.shape
        if not previous_state.is_array or previous_state.dtype != np.uint8 or shape[2:] != (3,):
            raise BuildError(
                f"{type(self).__name__}: expected uint8 arrays (H, W, 3), got {previous_state}: "
                "put it after the decoder, before NormalizeImage and ToTensor"
            )
        return previous_state, None


class RandomBrightness(_Change):
    """Blend with black. See `_Change` for the parameters."""

    def generate_code(self) -> Callable[..., Any]:
        """Return the change."""
        parallel_range = Compiler.get_iterable()
        chance, low, high = self.p, max(0.0, 1.0 - self.magnitude), 1.0 + self.magnitude

        def brightness(images: Any, dst: Any) -> Any:
            chosen = np.random.rand(images.shape[0]) < chance
            shares = np.random.uniform(low, high, images.shape[0])
            for i in parallel_range(images.shape[0]):
                if chosen[i]:
                    for y in range(images.shape[1]):
                        for x in range(images.shape[2]):
                            for c in range(3):
                                level = shares[i] * images[i, y, x, c]
                                images[i, y, x, c] = min(max(level, 0.0), 255.0)
            return images

        brightness.is_parallel = True  # type: ignore[attr-defined]
        return brightness


class RandomContrast(_Change):
    """Blend with the mean of the gray levels. See `_Change` for the parameters."""

    def generate_code(self) -> Callable[..., Any]:
        """Return the change."""
        parallel_range = Compiler.get_iterable()
        chance, low, high = self.p, max(0.0, 1.0 - self.magnitude), 1.0 + self.magnitude

        def contrast(images: Any, dst: Any) -> Any:
            chosen = np.random.rand(images.shape[0]) < chance
            shares = np.random.uniform(low, high, images.shape[0])
            for i in parallel_range(images.shape[0]):
                if chosen[i]:
                    total = 0
                    for y in range(images.shape[1]):
                        for x in range(images.shape[2]):
                            red, green = RED * images[i, y, x, 0], GREEN * images[i, y, x, 1]
                            total += int(red + green + BLUE * images[i, y, x, 2])
                    rest = (1.0 - shares[i]) * (total / (images.shape[1] * images.shape[2]))
                    for y in range(images.shape[1]):
                        for x in range(images.shape[2]):
                            for c in range(3):
                                level = shares[i] * images[i, y, x, c] + rest
                                images[i, y, x, c] = min(max(level, 0.0), 255.0)
            return images

        contrast.is_parallel = True  # type: ignore[attr-defined]
        return contrast


class RandomSaturation(_Change):
    """Blend with the gray image. See `_Change` for the parameters."""

    def generate_code(self) -> Callable[..., Any]:
        """Return the change."""
        parallel_range = Compiler.get_iterable()
        chance, low, high = self.p, max(0.0, 1.0 - self.magnitude), 1.0 + self.magnitude

        def saturation(images: Any, dst: Any) -> Any:
            chosen = np.random.rand(images.shape[0]) < chance
            shares = np.random.uniform(low, high, images.shape[0])
            for i in parallel_range(images.shape[0]):
                if chosen[i]:
                    for y in range(images.shape[1]):
                        for x in range(images.shape[2]):
                            red, green = RED * images[i, y, x, 0], GREEN * images[i, y, x, 1]
                            gray = int(red + green + BLUE * images[i, y, x, 2])
                            for c in range(3):
                                level = shares[i] * images[i, y, x, c] + (1.0 - shares[i]) * gray
                                images[i, y, x, c] = min(max(level, 0.0), 255.0)
            return images

        saturation.is_parallel = True  # type: ignore[attr-defined]
        return saturation
