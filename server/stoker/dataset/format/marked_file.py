"""Datasets that a file next to them names: `train.beton` for the folder `train.beton.stoker`.

Scripts for FFCV check that their dataset is a file. The file is FFCV's own, which was packed into
the folder, or a mark: a line of text that `stoker.compat.ffcv` writes. Every process that opens
datasets may use it; it reads no more than the mark.
"""

from pathlib import Path
from typing import Final

from stoker.dataset.format.manifest import NAME
from stoker.protocol.datasets import BESIDE
from stoker.protocol.errors import DatasetError

MARK: Final = b"Stoker dataset: "
"""Begins a mark; the name of the folder follows."""


def folder_next_to(file: Path) -> Path:
    """Return the folder of the dataset that a file names; it may not exist."""
    return file.with_name(file.name + BESIDE)


def write_mark(file: Path) -> None:
    """Write the mark of a dataset, over a file that is there."""
    file.write_bytes(MARK + folder_next_to(file).name.encode() + b"\n")


def marked_folder(file: Path) -> Path | None:
    """Return the folder of the dataset that a file names; None if the file names none.

    Raises:
        DatasetError: the folder is missing, or the file was changed after it was packed.
    """
    folder = folder_next_to(file)
    with file.open("rb") as opened:
        is_mark = opened.read(len(MARK)) == MARK
    is_there = (folder / NAME).is_file()
    if is_mark and not is_there:
        raise DatasetError(
            f"dataset {file}: expected its folder {folder}, which is missing: the file is only a "
            "mark, so copy or move the folder with it",
            dataset=str(file),
        )
    if not is_mark and is_there and file.stat().st_mtime_ns > (folder / NAME).stat().st_mtime_ns:
        raise DatasetError(
            f"dataset {file}: it was changed after {folder} was packed from it: run "
            f"`stoker pack {file} {folder} --overwrite`",
            dataset=str(file),
        )
    if not is_there and file.suffix == ".beton":
        raise DatasetError(
            f"dataset {file}: it is a file of FFCV, which must be packed once: run "
            f"`stoker pack {file} {folder}`; then {file} names the dataset",
            dataset=str(file),
        )
    return folder if is_there else None
