"""Operations on images as arrays, written with the same contract as custom ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stoker.compat.ffcv.pipeline.allocation_query import Allocation, AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.protocol.errors import BuildError, UsageError


class RandomHorizontalFlip(Operation):
    """Mirror left and right with probability `flip_prob`.

    Raises:
        UsageError: flip_prob is not a probability.
    """

    def __init__(self, flip_prob: float = 0.5) -> None:
        self.flip_prob = flip_prob
        self._check()

    def _check(self) -> None:
        if not 0.0 <= self.flip_prob <= 1.0:
            raise UsageError(
                f"RandomHorizontalFlip: expected flip_prob from 0 to 1, got {self.flip_prob!r}"
            )

    def generate_code(self) -> Callable[..., Any]:
        """Return the flip."""
        parallel_range = Compiler.get_iterable()
        flip_prob = self.flip_prob

        def flip(images: Any, dst: Any) -> Any:
            turned = np.random.rand(images.shape[0]) < flip_prob
            for i in parallel_range(images.shape[0]):
                if turned[i]:
                    dst[i] = images[i, :, ::-1]
                else:
                    dst[i] = images[i]
            return dst

        flip.is_parallel = True  # type: ignore[attr-defined]
        return flip

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the same state, and memory for a result."""
        self._check()
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)


class Cutout(Operation):
    """Fill a square at a random place.

    Args:
        crop_size: side of the square.
        fill: a level per channel.
    """

    def __init__(self, crop_size: int, fill: tuple[int, ...] = (0, 0, 0)) -> None:
        self.crop_size = crop_size
        self.fill = np.array(fill)

    def generate_code(self) -> Callable[..., Any]:
        """Return the function that fills."""
        parallel_range = Compiler.get_iterable()
        side, fill = self.crop_size, self.fill

        def cutout(images: Any, dst: Any) -> Any:
            tops = np.random.randint(0, images.shape[1] - side + 1, images.shape[0])
            lefts = np.random.randint(0, images.shape[2] - side + 1, images.shape[0])
            for i in parallel_range(images.shape[0]):
                box = images[i, tops[i] : tops[i] + side, lefts[i] : lefts[i] + side]
                for c in range(images.shape[3]):
                    box[:, :, c] = fill[c]
            return images

        cutout.is_parallel = True  # type: ignore[attr-defined]
        return cutout

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the same state; works in place."""
        return previous_state, None


class RandomTranslate(Operation):
    """Move images by up to `padding` pixels each way, and fill the rest.

    Args:
        padding: pixels.
        fill: a level per channel.
    """

    def __init__(self, padding: int, fill: tuple[int, ...] = (0, 0, 0)) -> None:
        self.padding = padding
        self.fill = np.array(fill)

    def generate_code(self) -> Callable[..., Any]:
        """Return the move."""
        parallel_range = Compiler.get_iterable()
        pad, fill = self.padding, self.fill

        def translate(images: Any, dst: Any) -> Any:
            count, height, width = images.shape[:3]
            down = np.random.randint(-pad, pad + 1, count)
            right = np.random.randint(-pad, pad + 1, count)
            for i in parallel_range(count):
                for c in range(images.shape[3]):
                    dst[i, :, :, c] = fill[c]
                top, left = max(0, down[i]), max(0, right[i])
                rows, columns = height - abs(down[i]), width - abs(right[i])
                y, x = max(0, -down[i]), max(0, -right[i])
                if rows > 0 and columns > 0:
                    part = images[i, y : y + rows, x : x + columns]
                    dst[i, top : top + rows, left : left + columns] = part
            return dst

        translate.is_parallel = True  # type: ignore[attr-defined]
        return translate

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the same state, and memory for a result."""
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)


class NormalizeImage(Operation):
    """Map levels to (level - mean) / std, by a table per channel.

    It takes arrays (H, W, C), or tensors (C, H, W) after `ToTorchImage`.

    Args:
        mean: per channel, in levels of 0 to 255.
        std: per channel.
        type: NumPy dtype of the result: float16, float32 or float64.
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], type: Any) -> None:  # noqa: A002
        self.dtype = np.dtype(type)
        levels = np.arange(256, dtype=np.float64)[:, None]
        table = (levels - np.asarray(mean, np.float64)) / np.asarray(std, np.float64)
        self.table = table.astype(self.dtype)
        self._on_tensors = False

    def generate_code(self) -> Callable[..., Any]:
        """Return the look-up; float16 is processed as bits, which machine code can store."""
        if self._on_tensors:
            return _normalize_tensors(self.table)
        parallel_range = Compiler.get_iterable()
        table = self.table.view(np.uint16) if self.dtype == np.float16 else self.table

        def normalize(images: Any, dst: Any) -> Any:
            for i in parallel_range(images.shape[0]):
                for y in range(images.shape[1]):
                    for x in range(images.shape[2]):
                        for c in range(images.shape[3]):
                            dst[i, y, x, c] = table[images[i, y, x, c], c]
            return dst

        normalize.is_parallel = True  # type: ignore[attr-defined]
        return normalize

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the state with the requested dtype.

        Raises:
            BuildError: it gets tensors that are not uint8 (C, H, W) of its channels.
        """
        self._on_tensors = not previous_state.is_array
        if self._on_tensors:
            return self._after_tensors(previous_state), None
        bits = np.dtype(np.uint16) if self.dtype == np.float16 else self.dtype
        return replace(previous_state, dtype=self.dtype), AllocationQuery(
            previous_state.shape, bits
        )

    def _after_tensors(self, before: State) -> State:
        import torch  # noqa: PLC0415 - takes a second to load

        channels = self.table.shape[1]
        if len(before.shape) != 3 or before.shape[0] != channels or before.dtype != torch.uint8:
            raise BuildError(
                f"NormalizeImage: expected uint8 tensors (C, H, W) of {channels} channels, got "
                f"{before}: put ToTorchImage() before it, or NormalizeImage before ToTensor()"
            )
        return replace(before, dtype=torch.from_numpy(self.table).dtype)


def _normalize_tensors(table: np.ndarray) -> Callable[..., Any]:
    """Return the look-up in a table, for tensors (B, C, H, W) on any device."""
    import torch  # noqa: PLC0415 - takes a second to load

    by_level = torch.from_numpy(table)

    def normalize(batch: Any, dst: Any) -> Any:
        out = torch.empty_like(batch, dtype=by_level.dtype)
        values = by_level.to(batch.device)
        for channel in range(batch.shape[1]):
            out[:, channel] = values[batch[:, channel].long(), channel]
        return out

    return normalize


class ReplaceLabel(Operation):
    """Replace the labels of some samples.

    Args:
        indices: their sample ids.
        new_label: the new label.
    """

    def __init__(self, indices: Sequence[int], new_label: int) -> None:
        self.indices = np.sort(np.asarray(indices, np.int64))
        self.new_label = new_label

    def generate_code(self) -> Callable[..., Any]:
        """Return the replacement."""
        chosen, label = self.indices, self.new_label

        def replace_label(labels: Any, dst: Any, indices: Any) -> Any:
            for i in range(labels.shape[0]):
                place = np.searchsorted(chosen, indices[i])
                if place < len(chosen) and chosen[place] == indices[i]:
                    labels[i] = label
            return labels

        replace_label.with_indices = True  # type: ignore[attr-defined]
        return replace_label

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the same state; works in place."""
        return previous_state, None
