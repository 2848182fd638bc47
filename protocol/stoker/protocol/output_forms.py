"""Forms of outputs v1: how rows that differ in shape make a batch.

`stack`: all rows of a batch have one shape, and the output is (rows, ...). `pad`: each row fills
the start of every side of one shape, which is the same for all rows of the global batch; the rest
has the fill value. `ragged`: the elements of all rows, one row after the other, and `offsets`,
which say where each row begins. `list`: one array per row. Specified with vectors in
docs/contracts/forms.md.

In a slot an output of form pad, ragged or list is two outputs: its rows, and, under the name
`<output>.size`, (rows, n) int64, the lengths of each row's n varying sides. In a ragged output and
in a list each row has room for the greatest possible row, and its elements are contiguous at the
start of that room. A row that pads the batch, or does not count, has sizes of 0. Boxes and
keypoints have their own module, `stoker.protocol.ragged`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from stoker.protocol.errors import ProtocolError
from stoker.protocol.item_fields import OFFSETS
from stoker.protocol.slot_layout import SIZE, Output

VALUES: Final = "values"


class RaggedArray:
    """Rows that differ in shape, one after the other: `values` and `offsets`.

    `ragged[r]` is row r in its own shape, a view. Arrays are NumPy arrays or torch tensors.

    Attributes:
        values: (N, ...): all rows, the varying sides of each merged into one.
        offsets: (rows + 1,) int64; row r is values[offsets[r] : offsets[r + 1]].
        sizes: (rows, n) int64: the lengths of the n varying sides of each row.
    """

    __slots__ = ("_bounds", "_shapes", "offsets", "sizes", "values")

    def __init__(self, values: Any, offsets: Any, sizes: Any) -> None:
        self.values = values
        self.offsets = offsets
        self.sizes = sizes
        self._bounds: list[int] | None = None
        self._shapes: list[list[int]] = []

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Any:
        """Return one row.

        Raises:
            IndexError: there is no such row.
        """
        if self._bounds is None:  # once: reading offsets from a device would wait each time
            self._bounds, self._shapes = self.offsets.tolist(), self.sizes.tolist()
        first, stop = self._bounds[:-1][row], self._bounds[1:][row]
        return self.values[first:stop].reshape(*self._shapes[row], *self.values.shape[1:])

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows."""
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        shape = tuple(self.values.shape)
        return f"RaggedArray({len(self)} rows, values {shape} {_dtype(self.values)})"

    def to(self, device: Any, non_blocking: bool = False) -> "RaggedArray":
        """Return a copy whose tensors are on another device (torch only)."""
        parts = (self.values, self.offsets, self.sizes)
        return RaggedArray(*(part.to(device, non_blocking=non_blocking) for part in parts))


def cut(output: Output, room: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """Return a row in its own shape: a view of its room in a slot.

    Args:
        output: an output of form pad, ragged or list.
        room: (...), the row's room in the slot.
        size: the lengths of its varying sides.
    """
    if output.form == "pad":
        inside: np.ndarray = room[tuple(slice(side) for side in size)]
        return inside
    shape = list(output.shape)
    for place, side in zip(output.varies, size, strict=True):
        shape[place] = side
    return room.reshape(-1)[: math.prod(shape)].reshape(shape)


def spread(output: Output, rows: np.ndarray, sizes: np.ndarray) -> dict[str, np.ndarray]:
    """Return an output of form ragged or list as plain arrays without unused elements.

    Args:
        output: its description from OPENED.
        rows: (rows, ...), as in the slot.
        sizes: (rows, n) int64, as in the slot.

    Returns:
        `<name>.values`, `<name>.offsets` and `<name>.size` for a ragged output; for a list
        `<name>.size`, and `<name>.0`, `<name>.1`, ...: views of the rows, each in its own shape.

    Raises:
        ProtocolError: a size is out of bounds.
    """
    name = output.name
    room = rows.shape[1:]
    most = np.array([room[place] for place in output.varies])
    if ((sizes < 0) | (sizes > most)).any():
        raise ProtocolError(
            f"output {name!r}: expected sizes of at most {room} along the sides "
            f"{output.varies}, got {sizes.min(0).tolist()} to {sizes.max(0).tolist()}"
        )
    each = [cut(output, row, size) for row, size in zip(rows, sizes.tolist(), strict=True)]
    if output.form == "list":
        return {f"{name}.{SIZE}": sizes, **{f"{name}.{r}": row for r, row in enumerate(each)}}
    inner = output.shape[len(output.varies) :]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(sizes.prod(1), out=offsets[1:])
    values = np.empty((int(offsets[-1]), *inner), rows.dtype)
    for row, first, stop in zip(each, offsets[:-1], offsets[1:], strict=True):
        values[first:stop] = row.reshape(stop - first, *inner)
    return {f"{name}.{VALUES}": values, f"{name}.{OFFSETS}": offsets, f"{name}.{SIZE}": sizes}


def is_apart(output: Output) -> bool:
    """Return whether an output is not one array of the batch, but rows of their own."""
    return output.form in ("ragged", "list")


def flatten(arrays: Mapping[str, np.ndarray], outputs: Iterable[Output]) -> dict[str, np.ndarray]:
    """Return a slot's outputs as plain arrays without unused elements; see `spread`.

    Args:
        arrays: by name, as in the slot.
        outputs: their descriptions from OPENED.

    Raises:
        ProtocolError: a size is out of bounds.
    """
    apart = {output.name: output for output in outputs if is_apart(output)}
    sizes = {f"{name}.{SIZE}" for name in apart}
    plain: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if name in apart:
            plain |= spread(apart[name], array, arrays[f"{name}.{SIZE}"])
        elif name not in sizes:
            plain[name] = array
    return plain


def gather(arrays: Mapping[str, Any], outputs: Iterable[Output]) -> dict[str, Any]:
    """Join the arrays that `spread` made into `RaggedArray`s and lists; keep the others.

    Args:
        arrays: by name; NumPy arrays or tensors.
        outputs: their descriptions from OPENED.
    """
    apart = {output.name: output for output in outputs if is_apart(output)}
    whole: dict[str, Any] = {}
    for key, array in arrays.items():
        name = key.rpartition(".")[0]
        if name not in apart:
            whole[key] = array
        elif key == f"{name}.{SIZE}":
            if apart[name].form == "list":
                whole[name] = [arrays[f"{name}.{row}"] for row in range(len(array))]
            else:
                values, offsets = (arrays[f"{name}.{part}"] for part in (VALUES, OFFSETS))
                whole[name] = RaggedArray(values, offsets, array)
    return whole


def parts_of(name: str, rows: RaggedArray | Sequence[Any]) -> dict[str, np.ndarray]:
    """Return the arrays that a digest covers for rows that differ in shape, on the host.

    Returns:
        `<name>.size`: (rows, sides), the whole shape of each row; `<name>.values`: all elements,
        one row after the other, in one dimension. The arrays of several cuts can be concatenated.
    """
    each = [np.asarray(row.cpu() if hasattr(row, "cpu") else row) for row in rows]
    sizes = np.array([row.shape for row in each], np.int64)
    return {
        f"{name}.{SIZE}": sizes,
        f"{name}.{VALUES}": np.concatenate([row.reshape(-1) for row in each]),
    }


def within_sizes(shape: Sequence[int], sizes: Any) -> Any:
    """Return which elements are within the sizes of their rows: (rows, *shape) bool.

    Args:
        shape: the lengths of the sides.
        sizes: (rows, sides) of integers, an array or a tensor; the result has the same type.
    """
    inside = None
    for place, side in enumerate(shape):
        numbers = np.arange(side)
        if not isinstance(sizes, np.ndarray):  # a tensor: create it on the device of the sizes
            numbers = sizes.new_tensor(numbers)
        axis = [1] * (1 + len(shape))
        axis[1 + place] = side
        limit = sizes[:, place].reshape(-1, *[1] * len(shape))
        found = numbers.reshape(axis) < limit
        inside = found if inside is None else inside & found
    return inside


def change_arrays(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to an entry of a batch; in a list, to each of its arrays."""
    return [change(part) for part in value] if isinstance(value, list) else change(value)


def described(value: Any) -> str:
    """Describe an entry of a batch in a few readable words."""
    if isinstance(value, list):
        dtype = f" {_dtype(value[0])}" if value and hasattr(value[0], "dtype") else ""
        return f"list of {len(value)}{dtype}"
    if not hasattr(value, "dtype"):
        return repr(value)
    return f"{tuple(value.shape)} {_dtype(value)}"


def _dtype(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.")
