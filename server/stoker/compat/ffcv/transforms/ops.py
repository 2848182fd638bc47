"""Operations between arrays and tensors, and on tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from stoker.compat.ffcv.pipeline.allocation_query import Allocation
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.ops.custom.foreign import kept
from stoker.protocol.errors import BuildError


class ToTensor(Operation):
    """Convert arrays to torch tensors over the same memory."""

    def generate_code(self) -> Callable[..., Any]:
        """Return the conversion."""

        def to_tensor(batch: Any, dst: Any) -> Any:
            return torch.from_numpy(batch)

        return to_tensor

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the state of a tensor on the CPU, of the same shape."""
        if not previous_state.is_array:
            raise BuildError("ToTensor: expected arrays, got tensors; leave one ToTensor out")
        dtype = torch.from_numpy(np.empty(0, previous_state.dtype)).dtype
        return replace(
            previous_state, jit_mode=False, device=torch.device("cpu"), dtype=dtype
        ), None


class _TensorOperation(Operation):
    """Base of operations on tensors, which need no memory from the loader."""

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Allocation]:
        """Return the state after the operation, and no memory."""
        if previous_state.is_array:
            raise BuildError(
                f"{type(self).__name__}: expected tensors, got arrays: put ToTensor() before it"
            )
        return self.after(previous_state), None

    def after(self, before: State) -> State:
        """Return the state after the operation."""
        return before


class ToDevice(_TensorOperation):
    """Copy tensors to a device.

    Args:
        device: a torch device.
        non_blocking: do not wait for the copy.
    """

    def __init__(self, device: Any, non_blocking: bool = True) -> None:
        self.device = torch.device(device)
        self.non_blocking = non_blocking

    def generate_code(self) -> Callable[..., Any]:
        """Return the copy."""

        def to_device(batch: Any, dst: Any) -> Any:
            return batch.to(self.device, non_blocking=self.non_blocking)

        return to_device

    def after(self, before: State) -> State:
        """Return the same state on the device."""
        return replace(before, device=self.device)


class ToTorchImage(_TensorOperation):
    """Change images (H, W, C) to (C, H, W).

    Args:
        channels_last: change only the order of the sides and leave the memory as it is
            (`torch.channels_last`); otherwise the pixels are moved.
        convert_back_int16: has no effect here; float16 is float16.
    """

    def __init__(self, channels_last: bool = True, convert_back_int16: bool = True) -> None:
        self.channels_last = channels_last

    def generate_code(self) -> Callable[..., Any]:
        """Return the function that permutes."""

        def to_torch_image(batch: Any, dst: Any) -> Any:
            moved = batch.permute(0, 3, 1, 2)
            return moved if self.channels_last else moved.contiguous()

        return to_torch_image

    def after(self, before: State) -> State:
        """Return the state with channels first."""
        if len(before.shape) != 3:
            raise BuildError(f"ToTorchImage: expected images (H, W, C), got {before}")
        height, width, channels = before.shape
        return replace(before, shape=(channels, height, width))


class Convert(_TensorOperation):
    """Convert tensors to another dtype, with the same values."""

    def __init__(self, target_dtype: Any) -> None:
        self.target_dtype = target_dtype

    def generate_code(self) -> Callable[..., Any]:
        """Return the conversion."""

        def convert(batch: Any, dst: Any) -> Any:
            return batch.to(self.target_dtype)

        return convert

    def after(self, before: State) -> State:
        """Return the state with the other dtype."""
        return replace(before, dtype=self.target_dtype)


class View(_TensorOperation):
    """View the same bytes as another dtype of the same size."""

    def __init__(self, target_dtype: Any) -> None:
        self.target_dtype = target_dtype

    def generate_code(self) -> Callable[..., Any]:
        """Return the view."""

        def view(batch: Any, dst: Any) -> Any:
            return batch.view(self.target_dtype)

        return view

    def after(self, before: State) -> State:
        """Return the state with the other dtype."""
        return replace(before, dtype=self.target_dtype)


class Squeeze(_TensorOperation):
    """Remove sides of length 1; a batch of one row keeps its first side.

    Args:
        dims: the sides, where the batch is 0; by default all except the batch.
    """

    def __init__(self, *dims: int) -> None:
        self.dims = dims

    def generate_code(self) -> Callable[..., Any]:
        """Return the function that reshapes."""

        def squeeze(batch: Any, dst: Any) -> Any:
            return batch.reshape(len(batch), *self._kept(tuple(batch.shape[1:])))

        return squeeze

    def after(self, before: State) -> State:
        """Return the state with fewer sides."""
        return replace(before, shape=self._kept(before.shape))

    def _kept(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        chosen = {dim % (len(shape) + 1) - 1 for dim in self.dims} or set(range(len(shape)))
        return tuple(s for axis, s in enumerate(shape) if s != 1 or axis not in chosen)


class ModuleWrapper(_TensorOperation):
    """Call a `torch.nn.Module` on batches of tensors, without gradients.

    It is called once per batch. If it draws from torch's CPU generator, NumPy or Python's `random`,
    these are seeded for the batch and restored, so a batch is the same in every run, but a sample
    depends on its batch.

    Attributes:
        draws: whether it draws; known after its state was declared.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.draws = False

    def generate_code(self) -> Callable[..., Any]:
        """Return the call."""

        def apply(batch: Any, dst: Any) -> Any:
            with torch.no_grad():
                return self.module(batch)

        return apply

    def after(self, before: State) -> State:
        """Return the state of the module's result for two rows of zeros."""
        probe = torch.zeros((2, *before.shape), dtype=before.dtype, device=before.device)
        with kept(0) as untouched, torch.no_grad():
            result = self.module(probe)
            self.draws = not untouched()
        if not isinstance(result, torch.Tensor) or result.shape[:1] != (2,):
            raise BuildError(
                f"{type(self.module).__name__}: expected a tensor with as many rows as its input, "
                f"got {getattr(result, 'shape', type(result).__name__)} for {tuple(probe.shape)}"
            )
        return replace(
            before, shape=tuple(result.shape[1:]), dtype=result.dtype, device=result.device
        )
