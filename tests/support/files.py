"""Files and folders as sources have them, made of Python values, and what was packed of them."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from stoker.dataset import Dataset
from stoker.protocol.ragged import unpack_items


def tar_of(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    """Write a tar with members (name, bytes)."""
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def npy_bytes(array: np.ndarray) -> bytes:
    """An array as the bytes of a .npy file."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of each file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def items_of(dataset: Dataset, field: str, number: int) -> dict[str, np.ndarray]:
    """The boxes or keypoints of a sample, by field."""
    return unpack_items(dataset.schema.field(field).items.fields, dataset.read(field, number))
