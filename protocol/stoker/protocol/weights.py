"""Weights: how often each sample of a dataset comes, as what the user gives and as bytes.

There are three forms: one number per sample, the name of a numeric field that holds it, or one
number per class of the label. The daemon turns each into numbers per sample (`stoker.server.rows`);
equal numbers are the same stream in every form. Every value from outside is checked here.
Specified in docs/contracts/order.md, the bytes in docs/protocol.md.
"""

import math
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.lib.format import read_array
from numpy.typing import NDArray

from stoker.protocol.analysis import analyzed
from stoker.protocol.canonical import canonical_bytes, canonical_value
from stoker.protocol.errors import UsageError
from stoker.protocol.files.text import read_text

MAX_WEIGHTED_ROWS: Final = 2**24
"""Samples of a dataset that may have weights."""
MAX_WEIGHT_BYTES: Final = 2**21
"""Most bytes of weights on the wire."""
MAX_WEIGHTED_CLASSES: Final = 2**14
SAMPLES: Final = b"\0"
"""First byte of weights per sample; other forms are canonical JSON."""
FORMS: Final = (
    "one number per sample (an array, or the path of a file), the name of a numeric field, or "
    '{class: weight}, such as {"cat": 1, "dog": 3}'
)
REMEDY: Final = "store them as a numeric field of the dataset, and give the name of that field"

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
Numbers = NDArray[np.float64]


class SampleWeights:
    """One weight per sample.

    Attributes:
        values: (n,) float64 by sample id, finite, at least 0, not all 0.
    """

    def __init__(self, values: Numbers) -> None:
        """Keep weights.

        Raises:
            UsageError: the list is empty or too long, a weight is not a finite number from 0, or
                all are 0.
        """
        if not 1 <= len(values) <= MAX_WEIGHTED_ROWS:
            raise UsageError(
                f"weights: expected 1 to 2**24 numbers, one per sample, got {len(values)}"
            )
        self.values = check_weights(values)

    def to_bytes(self) -> bytes:
        """Return the bytes: the distinct values, and for each sample the number of its value.

        Raises:
            UsageError: the bytes are too many for a message.
        """
        table, places = np.unique(self.values, return_inverse=True)
        codes: NDArray[np.generic] = places
        if len(table) > 2**16:
            table, codes = table[:0], self.values
        head = np.array([len(self.values), len(table)], "<u8").tobytes()
        body = codes.astype(_code_type(len(table))).tobytes()
        data = SAMPLES + zlib.compress(head + table.astype("<f8").tobytes() + body)
        if len(data) > MAX_WEIGHT_BYTES:
            raise UsageError(
                f"weights: {len(self.values)} weights, most of them different, take {len(data)} "
                f"bytes, and a message has room for {MAX_WEIGHT_BYTES}: {REMEDY}"
            )
        return data


class FieldWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of a sample is the value of one of its fields."""

    field: str

    def to_bytes(self) -> bytes:
        """Return the canonical form."""
        return canonical_bytes({"field": self.field})


class ClassWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of a sample is that of its class; classes are names or numbers."""

    classes: dict[str | int, float]

    def to_bytes(self) -> bytes:
        """Return the canonical form."""
        pairs = sorted(self.classes.items(), key=lambda pair: (isinstance(pair[0], str), pair[0]))
        return canonical_bytes({"classes": [[name, weight] for name, weight in pairs]})


Weights = SampleWeights | FieldWeights | ClassWeights


def weights_of(given: object) -> Weights:
    """Return the weights that a user gives.

    Text that could be the name of a field is one; other text, and any path object, is a file.

    Raises:
        UsageError: it has another form, or a number in it is not a weight.
    """
    if isinstance(given, str) and _FIELD.fullmatch(given):
        return FieldWeights(given)
    if isinstance(given, str | os.PathLike):
        return SampleWeights(read_weights(given))
    if isinstance(given, Mapping):
        return _of_classes(given)
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise UsageError(f"weights={given!r}: expected {FORMS}")
    return SampleWeights(_array(given))


def weights_from_bytes(data: bytes) -> Weights:
    """Parse what `to_bytes` of any form returned.

    Raises:
        UsageError: the bytes are not weights.
    """
    if data[:1] == SAMPLES:
        return _samples_from_bytes(data[1:])
    try:
        value = canonical_value(data)
        assert isinstance(value, dict)
        if value.keys() == {"classes"}:
            return _of_classes(dict(value["classes"]))
        found = msgspec.convert(value, analyzed(FieldWeights))
    except (ValueError, TypeError, AssertionError) as error:
        raise UsageError(f"weights: expected a form of weights: {error}") from None
    if not _FIELD.fullmatch(found.field):
        raise UsageError(f"weights: expected the name of a field, got {found.field!r}")
    return found


def check_weights(values: Numbers, where: str = "weights") -> Numbers:
    """Return weights by sample id, checked.

    Raises:
        UsageError: one is not a finite number from 0, or all are 0; the message begins with
            `where`.
    """
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise UsageError(
            f"{where}: expected finite numbers from 0, got {values[first]} for sample {first}"
            f"{_more(int(wrong.sum()))}; 0 leaves a sample out"
        )
    if not values.any():
        raise UsageError(f"{where}: all {len(values)} weights are 0, so no sample is left")
    return values


def read_weights(path: str | os.PathLike[str]) -> Numbers:
    """Read one weight per sample from a file: a `.npy` array, or text with one number per line.

    Empty lines and lines that begin with # are skipped.

    Raises:
        UsageError: the file cannot be read, or holds something else.
    """
    name = os.fspath(path)
    try:
        if name.endswith(".npy"):
            with open(name, "rb") as array:
                return _array(read_array(array, allow_pickle=False))
        lines = [line.strip() for line in read_text(name).splitlines()]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"weights: cannot read {name}: {reason}; expected a .npy array, or one number per line"
        ) from None
    return np.array(
        [
            _number(line, f"weights: {name}, line {number}")
            for number, line in enumerate(lines, 1)
            if line and not line.startswith("#")
        ],
        np.float64,
    )


def _of_classes(given: Mapping[object, object]) -> ClassWeights:
    if not 1 <= len(given) <= MAX_WEIGHTED_CLASSES:
        raise UsageError(
            f"weights: expected weights of 1 to {MAX_WEIGHTED_CLASSES} classes, got {len(given)}"
        )
    found: dict[str | int, float] = {}
    for name, weight in given.items():
        if isinstance(name, bool) or not (isinstance(name, str) or hasattr(name, "__index__")):
            raise UsageError(f"weights: expected names or numbers of classes, got {name!r}")
        key = name if isinstance(name, str) else int(name.__index__())
        found[key] = _number(weight, f"weights[{name!r}]")
    if not any(found.values()):
        raise UsageError(f"weights: the weights of all {len(found)} classes are 0")
    return ClassWeights(found)


def _number(value: object, where: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise UsageError(f"{where}: expected a finite number from 0, got {value!r}")
    return number


def _array(given: Iterable[object]) -> Numbers:
    try:
        values = np.asarray(given if hasattr(given, "__array__") else list(given))
    except ValueError as error:  # such as lists of different lengths
        raise UsageError(f"weights: expected one number per sample: {error}") from None
    if values.dtype == np.bool_:
        raise UsageError(
            "weights: expected numbers, got an array of bool: give subset=np.flatnonzero(mask)"
        )
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iuf"):
        raise UsageError(
            f"weights: expected one number per sample, got an array of {values.dtype} of shape "
            f"{values.shape}"
        )
    return values.astype(np.float64)


def _samples_from_bytes(data: bytes) -> SampleWeights:
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(data, 16)
        rows, distinct = (int(number) for number in np.frombuffer(found, "<u8"))
        if rows > MAX_WEIGHTED_ROWS or distinct > 2**16:
            raise ValueError("too many")
        code = _code_type(distinct)
        size = 8 * distinct + code.itemsize * rows
        body = inflate.decompress(inflate.unconsumed_tail, size) if size else b""
        if len(body) != size or not inflate.eof or inflate.unused_data:
            raise ValueError("the length is wrong")
        table = np.frombuffer(body, "<f8", distinct)
        codes = np.frombuffer(body, code, rows, 8 * distinct)
        values = table[codes] if distinct else codes
    except (zlib.error, ValueError, IndexError) as error:
        raise UsageError(f"weights: expected compressed weights of samples: {error}") from None
    return SampleWeights(values.astype(np.float64))


def _code_type(distinct: int) -> np.dtype[np.generic]:
    """Return the type of a sample's code: the number of its value, or without a table the value."""
    if not distinct:
        return np.dtype("<f8")
    return np.dtype("<u1" if distinct <= 2**8 else "<u2")


def _more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""
