"""Compares a stored row with the check that was stored with it.

This happens whenever a pipeline reads the row; see `format.row_check`. If a source is read in
place, the check covers the reference to a value, not the value. Runs in workers and replayers.
"""

import threading

from stoker.dataset.format.fields import Field
from stoker.dataset.reading.dataset_interface import Dataset
from stoker.protocol.errors import SampleError, UsageError

CHANGED = "its stored bytes no longer have the check that they were packed with"
_DECODED = ("jpeg", "png", "encoded", "bands", "planes")


class RowCheck:
    """Checks rows before they are used; threads may share it."""

    def __init__(self, dataset: Dataset) -> None:
        """Prepare to check rows of an open dataset.

        Raises:
            UsageError: the dataset has no checks.
        """
        if not dataset.has_checks:
            raise UsageError(
                f"dataset {dataset.path} was packed without a check of each row, so integrity="
                "'rows' has nothing to compare with; pack it again, or use integrity='auto'"
            )
        self._dataset = dataset
        self._own = threading.local()

    def __call__(self, sample_id: int) -> None:
        """Check a row; the row that was checked last is not read again.

        Raises:
            SampleError: its bytes are not those that were packed.
            UsageError: there is no such id.
        """
        if getattr(self._own, "last", None) == sample_id:
            return
        self._own.last = None
        if not self._dataset.is_intact(sample_id):
            raise _changed(self._dataset, sample_id)
        self._own.last = sample_id


def is_cheap(dataset: Dataset) -> bool:
    """Return whether checking a row costs little compared with reading it: it has an image."""

    def decodes(field: Field) -> bool:
        return field.encoding in _DECODED and not field.referenced

    return dataset.has_checks and any(decodes(field) for field in dataset.schema.fields)


def _changed(dataset: Dataset, sample_id: int) -> SampleError:
    file, _ = dataset.locate(dataset.schema.fields[0].name, sample_id)
    return SampleError(
        f"dataset {dataset.path}, id {sample_id} ({file.name}): {CHANGED}, so bytes of it have "
        f"changed on the disk or in memory; check the dataset with `stoker verify {dataset.path}`",
        dataset=str(dataset.path),
        id=int(sample_id),
        field="",
        file=file.name,
        reason=CHANGED,
    )
