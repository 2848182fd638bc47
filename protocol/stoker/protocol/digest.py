"""The digest of a batch v1: the tests of the law compare it, and users may log it.

BLAKE2b-128 over, in this order: epoch and step as unsigned 64-bit little-endian integers; then each
array, in order of its name (by code point): the name in UTF-8 and the NumPy name of the dtype, each
preceded by its length in bytes, then the number of sides and every side of the shape, then the
elements in row-major order, little-endian. Lengths and sides are unsigned 64-bit little-endian. A
ragged output counts as several arrays, its counts and the fields of its items (`Ragged.parts`), and
so do rows that differ in shape, as their sizes and their elements
(`stoker.protocol.output_forms.parts_of`).
"""

import hashlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from stoker.protocol.output_forms import RaggedArray, parts_of
from stoker.protocol.ragged import Ragged


def batch_digest(arrays: Mapping[str, Any], epoch: int, step: int) -> str:
    """Return the digest of one batch, 32 lower-case hex digits.

    Args:
        arrays: outputs by name, including `index`, `requested` and `valid`; NumPy arrays or
            anything that `numpy.asarray` takes without a copy, such as tensors in host memory;
            `Ragged`, `RaggedArray`, and lists of arrays.
        epoch: the batch's epoch, from 0.
        step: the batch's step in the epoch, from 0.
    """
    digest = hashlib.blake2b(struct.pack("<2Q", epoch, step), digest_size=16)
    plain = digest_parts(arrays)
    for name in sorted(plain):
        array = np.asarray(plain[name], order="C")
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        for text in (name.encode(), array.dtype.name.encode()):
            digest.update(struct.pack("<Q", len(text)) + text)
        digest.update(struct.pack(f"<{1 + array.ndim}Q", array.ndim, *array.shape))
        digest.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()


def digest_parts(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays that a batch's digest covers; those of several cuts can be concatenated."""
    plain: dict[str, Any] = {}
    for name, array in arrays.items():
        if isinstance(array, Ragged):
            plain |= array.parts(name)
        elif isinstance(array, RaggedArray | list):
            plain |= parts_of(name, array)
        else:
            plain[name] = array
    return plain
