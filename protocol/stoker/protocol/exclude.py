"""Exclude lists: the samples that a stream leaves out, as ids, bytes and digest.

A list is sorted and has every id once. Its bytes are the ids as little-endian 64-bit integers, and
its digest is in the StreamSpec: a stream without some samples is another stream. `read_ids` reads
files written by people or by the daemon. Both sides use this module, and every list from outside is
checked. Specified in docs/contracts/bad-samples.md.
"""

import functools
import hashlib
import json
import os
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stoker.protocol.errors import UsageError
from stoker.protocol.files.text import read_text
from stoker.protocol.spec import MAX_EXCLUDED, MAX_ROWS, as_integer

REMEDY: Final = "pack the dataset again without them (stoker pack --skip-bad)"

Ids = NDArray[np.int64]


class Excluded:
    """Samples that are left out.

    Attributes:
        ids: (k,) int64, ascending, every id once.
    """

    def __init__(self, ids: Iterable[int]) -> None:
        """Make a list from ids in any order; duplicates count once.

        Raises:
            UsageError: a value is not a sample id, or there are too many ids.
        """
        numbers = {sample_id(number) for number in ids}
        _check_count(len(numbers))
        self.ids: Ids = np.array(sorted(numbers), np.int64)

    @staticmethod
    def of_ids(ids: Ids) -> "Excluded":
        """Make a list from ascending ids, which are not checked; it may be of any length."""
        found = Excluded(())
        found.ids = ids
        return found

    @staticmethod
    def from_bytes(data: bytes) -> "Excluded":
        """Parse the bytes that `to_bytes` returned.

        Raises:
            UsageError: the bytes are not a list: cut off, too long, not ascending, or an id is out
                of bounds.
        """
        if len(data) % 8:
            raise UsageError(f"exclude: expected 8 bytes per id, got {len(data)} bytes")
        _check_count(len(data) // 8)
        ids = np.frombuffer(data, "<i8").astype(np.int64)
        _check_ascending(ids)
        return Excluded.of_ids(ids)

    def to_bytes(self) -> bytes:
        """Return the ids as little-endian 64-bit integers."""
        return self.ids.astype("<i8").tobytes()

    def __len__(self) -> int:
        """Return how many samples are left out."""
        return len(self.ids)

    @functools.cached_property
    def digest(self) -> str | None:
        """`<count>:<BLAKE2b-128 of the bytes>`, for the StreamSpec; None for an empty list."""
        if not len(self.ids):
            return None
        found = hashlib.blake2b(self.to_bytes(), digest_size=16).hexdigest()
        return f"{len(self.ids)}:{found}"

    def check(self, rows: int) -> None:
        """Check the list against a dataset.

        Raises:
            UsageError: it names an id that the dataset does not have, or leaves no sample.
        """
        if not len(self.ids):
            return
        if self.ids[-1] >= rows:
            raise UsageError(
                f"exclude: the dataset has {rows} samples, ids 0 to {rows - 1}; the list names "
                f"{self.ids[-1]}: does it belong to another dataset?"
            )
        if len(self.ids) >= rows:
            raise UsageError(
                f"exclude: the list names all {rows} samples of the dataset, so none is left"
            )


def read_ids(path: str | os.PathLike[str], argument: str = "exclude") -> list[int]:
    """Read ids from a file: one per line, or JSON objects with an `id`, as in a quarantine file.

    Empty lines and lines that begin with # are skipped. Messages begin with `argument`.

    Raises:
        UsageError: the file cannot be read, or a line is neither an id nor such an object.
    """
    try:
        lines = read_text(path).splitlines()
    except (OSError, ValueError) as error:  # not UTF-8, or not the name of a file
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{argument}: cannot read {os.fspath(path)}: {reason}") from None
    found = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            found.append(_id_of_line(text, f"{argument}: {os.fspath(path)}, line {number}"))
    return found


def _id_of_line(text: str, where: str) -> int:
    try:
        said = json.loads(text)
        return sample_id(said["id"] if isinstance(said, dict) else said)
    except (ValueError, KeyError, UsageError):
        raise UsageError(
            f"{where}: expected a sample id, or a JSON object with one as 'id', got {text[:80]!r}"
        ) from None


def sample_id(value: object, argument: str = "exclude") -> int:
    """Return a sample id as an int.

    Raises:
        UsageError: it is not one; the message begins with `argument`.
    """
    number = as_integer(value)
    if number is None:
        raise UsageError(f"{argument}: expected sample ids, integers from 0, got {value!r}")
    if not 0 <= number < MAX_ROWS:
        raise UsageError(f"{argument}: expected sample ids from 0, below 2**48, got {number}")
    return number


def _check_ascending(ids: Ids) -> None:
    bad = np.flatnonzero((ids < 0) | (ids >= MAX_ROWS) | (np.diff(ids, prepend=-1) <= 0))
    if len(bad):
        place = int(bad[0])
        after = f" after {ids[place - 1]}" if place else ""
        raise UsageError(
            "exclude: expected ids from 0, below 2**48, ascending, every id once, got"
            f" {ids[place]}{after}"
        )


def _check_count(count: int) -> None:
    if count > MAX_EXCLUDED:
        raise UsageError(f"exclude: expected at most {MAX_EXCLUDED} ids, got {count}; {REMEDY}")
