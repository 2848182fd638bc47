"""A dataset of frames, seen as a dataset of clips: neighboring rows that share an integer.

A sample is a clip, and its id counts clips in the order of their first frames. Everything that is
asked of a sample (labels, sizes, source) is that of its first frame; `frames` is the dataset of
frames itself. The column of clips is read once, 8 bytes per clip are kept. Imports no pyarrow,
numba or torch.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from stoker.dataset.format.manifest import StoredFile
from stoker.dataset.reading.dataset_interface import Dataset
from stoker.dataset.reading.uniform_fields import UniformFields
from stoker.protocol.errors import DatasetError, UsageError


class ClipDataset(Dataset):
    """Clips of a dataset of frames.

    Attributes:
        frames: the dataset of frames; closed with this one.
    """

    def __init__(self, frames: Dataset, by: str) -> None:
        """Find the clips.

        Args:
            frames: an open dataset.
            by: integer field that is equal in the frames of a clip.

        Raises:
            DatasetError: the frames of a clip are not next to each other.
            UsageError: there is no such field, or it is not an integer.
        """
        super().__init__(frames.path, frames.manifest)
        self.frames = frames
        self.check_row = frames.check_row
        self.has_checks = frames.has_checks
        self._starts = _starts(frames, by)

    def __len__(self) -> int:
        """Return the number of clips."""
        return len(self._starts) - 1

    def rows(self, sample_id: int) -> range:
        """Return the ids of a clip's frames in `frames`.

        Raises:
            UsageError: there is no such clip.
        """
        if not 0 <= sample_id < len(self):
            raise UsageError(f"dataset {self.path} has clips 0 to {len(self) - 1}, got {sample_id}")
        return range(int(self._starts[sample_id]), int(self._starts[sample_id + 1]))

    def close(self) -> None:
        """See `Dataset.close`."""
        self.frames.close()

    def size(self, field: str, sample_id: int) -> tuple[int, int]:
        """See `Dataset.size`."""
        return self.frames.size(field, self.rows(sample_id).start)

    def sizes(self, field: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """See `Dataset.sizes`."""
        found = list(self.frames.sizes(field))
        firsts = self._starts[:-1]
        wide, high = (np.concatenate([part[side] for part in found])[firsts] for side in (0, 1))
        yield wide, high

    def lengths(self, field: str) -> Iterator[np.ndarray]:
        """See `Dataset.lengths`."""
        yield np.concatenate(list(self.frames.lengths(field)))[self._starts[:-1]]

    def numbers(self, field: str) -> Iterator[np.ndarray]:
        """See `Dataset.numbers`."""
        yield np.concatenate(list(self.frames.numbers(field)))[self._starts[:-1]]

    def orientation(self, field: str, sample_id: int) -> int:
        """See `Dataset.orientation`."""
        return self.frames.orientation(field, self.rows(sample_id).start)

    def read(self, field: str, sample_id: int) -> memoryview | np.ndarray | np.generic:
        """See `Dataset.read`."""
        return self.frames.read(field, self.rows(sample_id).start)

    def reference(self, field: str, sample_id: int) -> bytes:
        """See `Dataset.reference`."""
        return self.frames.reference(field, self.rows(sample_id).start)

    def grid(self, field: str, sample_id: int) -> memoryview | None:
        """See `Dataset.grid`."""
        return self.frames.grid(field, self.rows(sample_id).start)

    def sizes_of(self, field: str, ids: np.ndarray) -> np.ndarray:
        """See `Dataset.sizes_of`."""
        return self.frames.sizes_of(field, self._starts[ids])

    def alike(self, fields: Sequence[str]) -> UniformFields | None:
        """See `Dataset.alike`: a row has several frames, so never."""
        return None

    def gather(self, field: str, ids: np.ndarray, out: np.ndarray) -> bool:
        """See `Dataset.gather`."""
        return self.frames.gather(field, self._starts[ids], out)

    def will_need(self, fields: Sequence[str], ids: np.ndarray) -> None:
        """See `Dataset.will_need`: which frames a row has is drawn later."""

    def source(self, sample_id: int) -> str | None:
        """See `Dataset.source`."""
        return self.frames.source(self.rows(sample_id).start)

    def digest(self, sample_id: int) -> bytes:
        """See `Dataset.digest`."""
        return self.frames.digest(self.rows(sample_id).start)

    def is_intact(self, sample_id: int) -> bool:
        """See `Dataset.is_intact`."""
        return all(self.frames.is_intact(row) for row in self.rows(sample_id))

    def locate(self, field: str, sample_id: int) -> tuple[StoredFile, int]:
        """See `Dataset.locate`."""
        return self.frames.locate(field, self.rows(sample_id).start)

    def _whereabouts(self, field: str, sample_id: int) -> tuple[str, int]:
        return self.frames._whereabouts(field, self.rows(sample_id).start)


def _starts(frames: Dataset, by: str) -> np.ndarray:
    """Return the first row of each clip, and the number of rows."""
    field = frames.schema.field(by)
    if field is None or field.shape or np.dtype(field.dtype).kind not in "iu":
        names = [one.name for one in frames.schema.fields]
        found = "it is not there" if field is None else f"it is {field.kind} {field.dtype}"
        raise UsageError(
            f"sample_frames: dataset {frames.path}: expected an integer field {by!r} that is equal "
            f"in the frames of a clip, {found}; its fields are {', '.join(names)}. Pack folders of "
            "frames with `stoker pack --kind clips`, or name the field with by="
        )
    column = np.concatenate(list(frames.numbers(by)))
    changes = np.flatnonzero(column[1:] != column[:-1]) + 1
    starts = np.concatenate([[0], changes, [len(column)]]).astype(np.int64)
    clips, first = np.unique(column[starts[:-1]], return_index=True)
    if len(clips) < len(starts) - 1:
        again = sorted(set(range(len(starts) - 1)) - set(first.tolist()))[0]
        row = int(starts[again])
        raise DatasetError(
            f"sample_frames: dataset {frames.path}: {by} {column[row]} begins a second time at row "
            f"{row}: the frames of a clip must follow each other; pack them in that order",
            dataset=str(frames.path),
        )
    return starts
