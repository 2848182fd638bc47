"""Pickles, which are never read: reading one can run any code. The error says how to convert it."""

from pathlib import Path
from typing import Final

CIFAR: Final = """
import pickle
from pathlib import Path

import numpy as np

images, labels = [], []
for path in sorted(Path("{folder}").glob("{pattern}")):
    batch = pickle.loads(path.read_bytes(), encoding="bytes")
    images.append(batch[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    labels += batch[{labels}]
np.savez("cifar.npz", image=np.concatenate(images), label=np.array(labels))
"""
_BATCHES: Final = {"data_batch_1": 'b"labels"', "train": 'b"fine_labels"'}
_SUFFIXES: Final = frozenset([".pkl", ".pickle", ".p", ".pt", ".pth", ".joblib"])
_ZIP: Final = b"PK\3\4"


def how_to_convert(source: Path) -> str | None:
    """Return what to do about a source that is a pickle, or a folder of pickles; None: it is not.

    Raises:
        OSError: it cannot be read.
    """
    if source.is_dir():
        for name, labels in _BATCHES.items():
            if (source / name).is_file() and _is_pickle(source / name):
                return _of_cifar(source, "data_batch_*" if "batch" in name else name, labels)
        return None
    if not source.is_file() or not _is_pickle(source):
        return None
    folder = source.parent
    if source.name in _BATCHES or source.name.startswith("data_batch_"):
        return _of_cifar(folder, source.name, _BATCHES.get(source.name, 'b"labels"'))
    return (
        f"{source} is a pickle, which Stoker does not read, because reading one can run any code; "
        "load it yourself and save its arrays, as in np.savez('data.npz', image=images, "
        "label=labels)"
    )


def _is_pickle(path: Path) -> bool:
    with open(path, "rb") as file:
        head = file.read(4)
    in_zip = head == _ZIP and path.suffix in (".pt", ".pth")
    return (
        in_zip
        or (head[:1] == b"\x80" and head[1:2] in (b"\2", b"\3", b"\4", b"\5"))
        or (path.suffix in _SUFFIXES)
    )


def _of_cifar(folder: Path, pattern: str, labels: str) -> str:
    code = CIFAR.format(folder=folder, pattern=pattern, labels=labels)
    return (
        f"{folder}: these are pickles, which Stoker does not read, because reading one can run any "
        f"code; if you trust them, convert them with\n{code}\nand pack cifar.npz"
    )
