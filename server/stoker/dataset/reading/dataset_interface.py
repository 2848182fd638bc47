"""The interface of every dataset: stored samples, and the decoding that all of them share.

Runs in workers and in user processes, also after a fork; threads may share a Dataset. Imports no
pyarrow, numba or torch.
"""

import math
import threading
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from stoker.dataset.format.fields import Field
from stoker.dataset.format.manifest import Manifest
from stoker.dataset.images.bands import decode_bands
from stoker.dataset.images.box_decoding import (
    NO_PLANES,
    BoxScratch,
    decode_boxed,
    decode_gridded,
)
from stoker.dataset.images.codecs import decode_picture
from stoker.dataset.images.jpeg import check_all_parts
from stoker.dataset.images.jpeg.planes.plane_form import is_planes
from stoker.dataset.images.orientation import upright_size
from stoker.dataset.images.scaled_decoding import can_scale, decode_scaled, decode_scaled_box
from stoker.dataset.limits import CodecError
from stoker.dataset.reading.pixel_memory import pixel_bytes, require_memory
from stoker.dataset.reading.stored_samples import StoredSamples
from stoker.protocol.errors import UsageError


class Head(NamedTuple):
    """What is known of an image or mask before its bytes are read.

    Attributes:
        size: (height, width), upright.
        turn: EXIF orientation of the stored bytes, 1..8.
        grid: the grid of its JPEG, if it has one.
    """

    size: tuple[int, int]
    turn: int
    grid: memoryview | None


class Dataset(StoredSamples):
    """A read-only, indexable collection of samples; made by `stoker.dataset.open_dataset`.

    Attributes:
        path: its folder, or the name of a live source.
        manifest: its manifest.
        schema: its fields.
        fingerprint: `content:<32 hex digits>`.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        super().__init__(path, manifest)
        self._local = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def decode(
        self, field: str, sample_id: int, out: np.ndarray, *, compiled: bool = False
    ) -> np.ndarray:
        """Decode an image or mask, upright, into the caller's memory.

        Args:
            field: an image or mask.
            sample_id: the sample's id.
            out: flat, contiguous, writable uint8 array with at least as many bytes as the pixels.
            compiled: decode JPEGs with grids by Stoker's own decoder, which compiles at first. Bit
                planes always are.

        Returns:
            A contiguous view of `out`: (H, W, C) for images, (H, W) for masks.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field is not an image or mask, there is no such id, or `out` is too
                small.
            SampleError: the stored bytes are damaged; details name dataset, id, field, file,
                offset and reason.
        """
        spec = self._picture(field)
        size, turn = self._checked_size(spec, sample_id)
        needed = require_memory(spec, sample_id, size, out)
        data = self.read(field, sample_id)
        if isinstance(data, np.ndarray):
            target = out[:needed].view(data.dtype).reshape(data.shape)
            np.copyto(target, data)
            return target
        assert isinstance(data, memoryview)
        try:
            if spec.encoding == "bands":
                picture = out[:needed].view(spec.dtype).reshape(*size, *spec.shape[2:])
                decode_bands(data, picture)
                return picture
            grid, planes = self.grid(field, sample_id), is_planes(data)
            if grid is not None and (compiled or planes):
                whole: np.ndarray = out[:needed].reshape(*size, 3)
                if decode_gridded(data, grid, size, turn, whole, self._scratch()):
                    return whole
            if grid is not None:
                check_all_parts(data, grid)
            if planes:
                raise CodecError(NO_PLANES)
            return decode_picture(data, spec.kind, size, turn, out, self._scratch().turned)
        except CodecError as error:
            raise self.sample_error(field, sample_id, f"cannot decode it: {error}") from None

    def decode_box(
        self,
        field: str,
        sample_id: int,
        box: tuple[int, int, int, int],
        out: np.ndarray,
    ) -> np.ndarray:
        """Decode a box of an image or mask to its place in the caller's memory.

        Outside of the box the pixels are undefined. Data in bands and a JPEG with a grid are
        decoded only as far as needed; anything else is decoded whole.

        Args:
            field: an image or mask.
            sample_id: the sample's id.
            box: (top, left, height, width) in pixels of the upright image, inside it.
            out: as for `decode`.

        Returns:
            As `decode`: the view of the whole image.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: as for `decode`, or the box is not inside the image.
            SampleError: as for `decode`.
        """
        spec = self._picture(field)
        size, turn, grid = self._checked_head(spec, sample_id)
        if grid is None and spec.encoding != "bands":
            return self.decode(field, sample_id, out)
        needed = require_memory(spec, sample_id, size, out)
        top, left, height, width = box
        if not (0 <= top < top + height <= size[0] and 0 <= left < left + width <= size[1]):
            raise UsageError(
                f"field {field!r} of id {sample_id}: expected a box inside its {size[0]}x{size[1]} "
                f"pixels, got {box}"
            )
        data = self.read(field, sample_id)
        assert isinstance(data, memoryview)
        target = out[:needed].view(spec.dtype).reshape(*size, *spec.shape[2:])
        try:
            if grid is None:
                decode_bands(data, target, box)
                return target
            done = decode_boxed(data, grid, size, turn, box, target, self._scratch())
        except CodecError as error:
            raise self.sample_error(field, sample_id, f"cannot decode it: {error}") from None
        return target if done else self.decode(field, sample_id, out)

    def decode_scaled(
        self,
        field: str,
        sample_id: int,
        divisor: int,
        box: tuple[int, int, int, int],
        out: np.ndarray,
        *,
        whole: bool = False,
    ) -> np.ndarray:
        """Decode a box of an image, at a fraction of its size if it is a JPEG.

        Args:
            field: an image.
            sample_id: the sample's id.
            divisor: 1, 2, 4 or 8: what both sides are divided by.
            box: as for `decode_box`.
            out: as for `decode`.
            whole: decode all of the image, and not by its grid.

        Returns:
            A view of `out`: the reduced image, or the whole one if it cannot be reduced
            (`images.scaled_decoding.can_scale`). Outside of what the box touches it is undefined.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: as for `decode_box`.
            SampleError: as for `decode`.
        """
        spec = self._picture(field)
        size, turn = self._checked_size(spec, sample_id)
        data = self.read(field, sample_id)
        if not isinstance(data, memoryview) or not can_scale(data, size, turn, divisor):
            if whole:
                return self.decode(field, sample_id, out)
            return self.decode_box(field, sample_id, box, out)
        require_memory(spec, sample_id, size, out)
        grid, given = self.grid(field, sample_id), (size, turn, divisor)
        try:
            if grid is not None and not whole:
                part = decode_scaled_box(data, grid, *given, box, out, self._scratch())
                if part is not None:
                    return part
            if grid is not None:
                check_all_parts(data, grid)
            return decode_scaled(data, *given, out, self._scratch())
        except CodecError as error:
            raise self.sample_error(field, sample_id, f"cannot decode it: {error}") from None

    def undecoded(self, field: str, sample_id: int, out: np.ndarray) -> np.ndarray:
        """Return a view of `out` of the shape that `decode` gives, with undefined pixels.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: as for `decode`.
            SampleError: the size is damaged.
        """
        spec = self._picture(field)
        size, _ = self._checked_size(spec, sample_id)
        needed = require_memory(spec, sample_id, size, out)
        return out[:needed].view(spec.dtype).reshape(*size, *spec.shape[2:])

    def check_grid(self, field: str, sample_id: int) -> None:
        """Check that the grid of an image, if it has one, belongs to its file.

        Raises:
            UnknownNameError: there is no such field.
            UsageError: the field is not an image or mask, or there is no such id.
            SampleError: the grid is damaged.
        """
        grid, data = self.grid(field, sample_id), self.read(field, sample_id)
        if grid is None:
            return
        assert isinstance(data, memoryview)
        if is_planes(data):  # decoding them reads all of it
            return
        size, turn = self._checked_size(self._picture(field), sample_id)
        try:
            self._scratch().splicer.check(data, grid, upright_size(*size, turn))
        except CodecError as error:
            raise self.sample_error(field, sample_id, str(error)) from None

    def head(self, field: Field, sample_id: int) -> Head:
        """Return size, orientation and grid of an image or mask.

        Raises:
            UsageError: there is no such id.
            SampleError: the file's own offsets are damaged.
        """
        name = field.name
        turn = self.orientation(name, sample_id)
        return Head(self.size(name, sample_id), turn, self.grid(name, sample_id))

    def _checked_size(self, spec: Field, sample_id: int) -> tuple[tuple[int, int], int]:
        """Return size and orientation after checks, because the file may be damaged."""
        size, turn = self.size(spec.name, sample_id), self.orientation(spec.name, sample_id)
        self._check_size(spec, sample_id, size, turn)
        return size, turn

    def _checked_head(self, spec: Field, sample_id: int) -> Head:
        """Return the head of an image or mask after checks, because the file may be damaged."""
        head = self.head(spec, sample_id)
        self._check_size(spec, sample_id, head.size, head.turn)
        return head

    def _check_size(self, spec: Field, sample_id: int, size: tuple[int, int], turn: int) -> None:
        fits = 1 <= size[0] <= spec.bound[0] and 1 <= size[1] <= spec.bound[1]
        if not fits or not 1 <= turn <= 8:
            what = f"its size {size[0]}x{size[1]} or orientation {turn} is damaged"
            raise self.sample_error(spec.name, sample_id, what)

    def _raw_picture(self, spec: Field, data: memoryview, sample_id: int) -> np.ndarray:
        size, _ = self._checked_size(spec, sample_id)
        if size[0] * size[1] * pixel_bytes(spec) != len(data):
            what = f"expected an image of {size[0]}x{size[1]} pixels, got {len(data)} bytes"
            raise self.sample_error(spec.name, sample_id, what)
        return np.frombuffer(data, spec.dtype).reshape(*size, *spec.shape[2:])

    def _ragged(self, spec: Field, data: memoryview, sample_id: int) -> np.ndarray:
        inner = [side or 1 for side in spec.shape[1:]]
        items = np.frombuffer(data, np.uint8 if spec.dtype == "bool" else spec.dtype)
        count, rest = divmod(items.size, math.prod(inner))
        if rest or count > spec.bound[0] or spec.shape[0] not in (None, count):
            want = f"{spec.shape} up to {spec.bound}"
            what = f"expected an array of shape {want}, got {items.size} numbers"
            raise self.sample_error(spec.name, sample_id, what)
        shaped = items.reshape(count, *inner)
        return shaped.astype(np.bool_) if spec.dtype == "bool" else shaped

    def _scratch(self) -> BoxScratch:
        scratch: BoxScratch | None = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = BoxScratch()
        return scratch
