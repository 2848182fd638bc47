"""Unpack a dataset: its samples become files again, which other tools read and `pack` packs.

Images and masks that are stored as files become these files, byte for byte; pixels that are stored
raw or in bands become PNG, or .npy if PNG has no such pixels. The form is that of
`stoker.dataset.format.unpacked_form`. Files are named like the sample's own source, below a folder
for each field.

Each file is written under a temporary name and then renamed, and the header comes last: a run that
was interrupted continues, and keeps the files that are there.
"""

import contextlib
import fcntl
import io
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET
from PIL import Image

from stoker.dataset.format.fields import Field
from stoker.dataset.format.manifest import sync_folder
from stoker.dataset.format.manifest_splits import split_subset
from stoker.dataset.format.optional_fields import declared
from stoker.dataset.format.unpacked_form import (
    HEADER,
    SAMPLES,
    SOURCE_KEY,
    WORK,
    header_of,
    is_in_file,
    line_items,
    line_value,
)
from stoker.dataset.images.codecs import signature
from stoker.dataset.images.jpeg.planes.plane_files import to_jpeg
from stoker.dataset.images.jpeg.planes.plane_form import is_planes
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.build import disk_errors
from stoker.dataset.reading.dataset_interface import Dataset
from stoker.dataset.reading.integrity import RowCheck
from stoker.dataset.reading.live import LiveDataset
from stoker.dataset.reading.pixel_memory import pixel_bytes
from stoker.dataset.sources.common.walk import SUFFIXES
from stoker.protocol.errors import UsageError
from stoker.protocol.ragged import unpack_items

_REQUEST = "request"
_TEMPORARY = "file"
_MAX_PART = 200
"""Maximum bytes of a part of a name: file systems take 255, with the suffix."""
_SUFFIX_OF = {"jpeg": ".jpg", "png": ".png"}
_PNG = ("uint8", "uint16")


@dataclass(frozen=True)
class UnpackReport:
    """What was unpacked.

    Attributes:
        rows: number of samples.
        files: number of their files.
        size_bytes: their size.
        kept_files: how many of them an earlier run had written.
        forms: by field, how its values were written: suffixes of files, or `samples.jsonl`.
        not_written: what the folder has no place for, one line each.
    """

    rows: int
    files: int
    size_bytes: int
    kept_files: int
    forms: dict[str, list[str]]
    not_written: tuple[str, ...]


def unpack(
    dataset: Dataset,
    folder: str | os.PathLike[str],
    *,
    numbered: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> UnpackReport:
    """Write the samples of a dataset as files.

    Args:
        dataset: a packed dataset, or a source that is read in place.
        folder: made if it is missing; it must be empty, or have the files of a run with the same
            dataset and arguments that was interrupted.
        numbered: name files by sample id, not by the source of the sample.
        progress: called with (samples done, samples) now and then.

    Raises:
        UsageError: the folder has other files; or a name leads out of it, or comes twice; or the
            dataset is a live source.
        SampleError: a sample is damaged.
        ResourceError: the disk is full.
        DatasetError: it cannot be written for another reason.
    """
    if isinstance(dataset, LiveDataset):
        raise UsageError(
            f"{dataset.path} is a live source, whose samples are made when they are read; pack it, "
            "and unpack the result"
        )
    target, rows = Path(folder), len(dataset)
    stems = _Stems(dataset, numbered)
    fields = declared(dataset.schema.fields)
    check = RowCheck(dataset) if dataset.has_checks else None
    splits = dict(_splits(dataset))
    request = msgspec.json.encode([dataset.fingerprint, numbered])
    with _work(target, request) as work, disk_errors(target):
        writer = _FileWriter(target, work)
        with open(work / SAMPLES, "wb") as lines:
            for number in range(rows):
                if check is not None:
                    check(number)
                line: dict[str, Any] = {SOURCE_KEY: dataset.source(number) or stems.of(number)}
                for field in fields:
                    line[field.name] = _value(dataset, field, number, stems, writer)
                lines.write(msgspec.json.encode(line) + b"\n")
                if progress is not None:
                    progress(number + 1, rows)
            lines.flush()
            os.fsync(lines.fileno())
        for name, text in splits.items():
            writer.place(f"{name}.split.txt", text, "")
        os.replace(work / SAMPLES, target / SAMPLES)
        writer.place(HEADER, header_of(dataset.fingerprint, dataset.schema.fields), "")
        shutil.rmtree(work)
        sync_folder(target)
    return UnpackReport(
        rows, writer.files, writer.size_bytes, writer.kept_files,
        {name: sorted(forms) for name, forms in writer.forms.items()},
        _not_written(dataset),
    )  # fmt: skip


def _not_written(dataset: Dataset) -> tuple[str, ...]:
    seen = dataset.manifest.statistics
    lines = []
    if any(field.grid_column for field in dataset.schema.fields):
        lines.append(
            "the bytes of JPEGs from before packing: those of the dataset have the same pixels and "
            "metadata, and restart markers for crops"
        )
    if any(
        field.encoding in ("bands", "raw") for field in dataset.schema.fields if field.is_picture
    ):
        lines.append("the files of images and masks that are stored as pixels")
    if seen.notes or seen.skipped:
        lines.append("notes of packing, and the list of samples that it left out")
    return tuple(lines)


class _Stems:
    """Paths of samples below the folder of a field, without suffix.

    Raises:
        UsageError: a name leads out of the folder, or two samples have one name.
    """

    def __init__(self, dataset: Dataset, numbered: bool) -> None:
        self._dataset, self._digits = dataset, len(str(len(dataset) - 1))
        self._numbered = numbered or dataset.source(0) is None
        if self._numbered:
            return
        seen: dict[str, int] = {}
        for number in range(len(dataset)):
            stem = _stem(dataset.source(number) or "", number)
            if (first := seen.setdefault(stem, number)) != number:
                raise UsageError(
                    f"the samples {first} and {number} of {dataset.path} have one name, {stem!r}; "
                    "pass --numbered to name files by sample id"
                )

    def of(self, number: int) -> str:
        """Return the path of a sample."""
        if self._numbered:
            return f"{number:0{self._digits}d}"
        return _stem(self._dataset.source(number) or "", number)


def _stem(source: str, number: int) -> str:
    """Return the path of a sample's source without the suffix of an image.

    Raises:
        UsageError: it is no path below a folder.
    """
    path = PurePosixPath(source)
    suffix = path.suffix if path.suffix.lower() in SUFFIXES else ""
    stem = source.removesuffix(suffix)
    parts = stem.split("/")
    odd = any(part in ("", ".", "..") or len(part.encode()) > _MAX_PART for part in parts)
    if odd or "\0" in stem or "\\" in stem:
        raise UsageError(
            f"the source of sample {number} is {source!r}, which names no file below a folder: "
            "expected a path without '..', that does not begin with '/', of parts of at most "
            f"{_MAX_PART} bytes; pass --numbered to name files by sample id"
        )
    return stem


def _value(
    dataset: Dataset, field: Field, number: int, stems: _Stems, writer: "_FileWriter"
) -> Any:
    """Write the file of a value, if it is one; return what stands in the line of the sample."""
    if field.optional and not dataset.read(field.present_name, number):
        return None
    value = dataset.read(field.name, number)
    if not is_in_file(field):
        writer.forms.setdefault(field.name, set()).add(SAMPLES)
        if field.items is not UNSET:
            return line_items(unpack_items(field.items.fields, np.asarray(value)))
        assert not isinstance(value, memoryview)
        return line_value(field, value)
    data, suffix = _file_of(dataset, field, number, value)
    path = f"{field.name}/{stems.of(number)}{suffix}"
    writer.place(path, data, field.name)
    return path


def _file_of(
    dataset: Dataset, field: Field, number: int, value: memoryview | np.ndarray | np.generic
) -> tuple[bytes | memoryview, str]:
    """Return the bytes of a file, and its suffix."""
    if field.kind == "bytes":
        assert isinstance(value, memoryview)
        return value, ".bin"
    if field.kind == "array":
        return _npy(np.asarray(value)), ".npy"
    if field.encoding not in ("raw", "bands"):
        assert isinstance(value, memoryview)
        grid = dataset.grid(field.name, number)
        if grid is not None and is_planes(value):
            try:
                return to_jpeg(value, grid).data, ".jpg"
            except CodecError as error:
                raise dataset.sample_error(field.name, number, str(error)) from None
        encoding = signature(value)
        if encoding is None:
            raise dataset.sample_error(field.name, number, "it is neither a JPEG nor a PNG")
        return value, _SUFFIX_OF[encoding]
    height, width = dataset.size(field.name, number)
    memory = np.empty(height * width * pixel_bytes(field), np.uint8)
    pixels = dataset.decode(field.name, number, memory)
    return (_png(pixels), ".png") if _fits_png(field) else (_npy(pixels), ".npy")


def _fits_png(field: Field) -> bool:
    """Return whether packing reads such pixels from a PNG: RGB and masks, or one channel of 16."""
    return field.fits_files or (field.dtype == "uint16" and field.shape[2:] in ((), (1,)))


def _png(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    flat = pixels[..., 0] if pixels.shape[2:] == (1,) else pixels
    Image.fromarray(flat).save(out, "PNG")
    return out.getvalue()


def _npy(values: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, values, allow_pickle=False)
    return out.getvalue()


def _splits(dataset: Dataset) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each split, and the list of its ids, as `stoker split` takes it."""
    splits = dataset.manifest.splits
    if splits is UNSET:
        return
    for name in splits.names:
        ids = split_subset(splits, name, len(dataset)).ids
        yield name, "".join(f"{number}\n" for number in ids.tolist()).encode()


class _FileWriter:
    """Writes files, each whole or not at all, and counts them."""

    def __init__(self, folder: Path, work: Path) -> None:
        self._folder, self._temporary = folder, work / _TEMPORARY
        self._made: set[str] = set()
        self.files = self.size_bytes = self.kept_files = 0
        self.forms: dict[str, set[str]] = {}

    def place(self, path: str, data: bytes | memoryview, field: str) -> None:
        """Write a file, unless an earlier run did.

        Args:
            path: below the folder.
            data: its bytes.
            field: whose value it is; "" for a file that belongs to no sample.
        """
        target = self._folder / path
        if field:
            self.files += 1
            self.size_bytes += len(data)
            self.forms.setdefault(field, set()).add(target.suffix)
            if target.is_file() and target.stat().st_size == len(data):
                self.kept_files += 1
                return
        parent = os.path.dirname(path)
        if parent not in self._made:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(parent)
        self._temporary.unlink(missing_ok=True)
        with open(self._temporary, "xb") as file:
            file.write(data)
        os.replace(self._temporary, target)


@contextlib.contextmanager
def _work(folder: Path, request: bytes) -> Iterator[Path]:
    """Make and lock the work folder.

    Raises:
        UsageError: the folder has files of something else, or another process unpacks into it.
    """
    work = folder / WORK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        there = {entry.name for entry in os.scandir(folder)}
        if there and (WORK not in there or work.is_symlink()):
            raise UsageError(f"{folder} is not empty; choose another folder, or empty it")
        work.mkdir(exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(work / _REQUEST, flags, 0o600)
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}; choose another place"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        before = os.pread(descriptor, len(request) + 1, 0)
        if before not in (b"", request):
            raise UsageError(
                f"{folder} has the files of another run of stoker unpack, of another dataset or "
                "with another --numbered; choose another folder, or empty it"
            )
        os.pwrite(descriptor, request, 0)
        yield work
    except BlockingIOError:
        raise UsageError(
            f"another process unpacks into {folder}; wait for it, or choose another place"
        ) from None
    finally:
        os.close(descriptor)
