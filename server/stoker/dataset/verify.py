"""Verifying a dataset: files' hashes, rows' digests, every image decoded, the fingerprint.

Work is cut into ranges of rows for worker processes; files are hashed first, in this process. The
fingerprint is computed again from the row digests, which the rows were compared with.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET

from stoker.dataset.dataset_opening import open_dataset
from stoker.dataset.format.fingerprint import dataset_fingerprint
from stoker.dataset.format.manifest import Manifest
from stoker.dataset.packing.build import row_digests
from stoker.dataset.packing.kept_files import file_digest
from stoker.dataset.packing.pool import Job, check_workers, default_workers, run_jobs
from stoker.dataset.packing.verify_rows import BadRow, RowsJob, RowsResult, verify_rows
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import UsageError

ROWS_PER_JOB = 512
MAX_BAD = 100


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of verifying.

    Attributes:
        rows: number of rows checked.
        bad: number of bad rows.
        bad_rows: the first bad rows.
        bad_files: files whose hash differs from the manifest's.
        fingerprint: the fingerprint in the manifest.
        fingerprint_holds: whether the content still has it.
    """

    rows: int
    bad: int
    bad_rows: tuple[BadRow, ...]
    bad_files: tuple[str, ...]
    fingerprint: str
    fingerprint_holds: bool

    @property
    def holds(self) -> bool:
        """True if nothing is wrong."""
        return not self.bad and not self.bad_files and self.fingerprint_holds


def verify(
    path: str | os.PathLike[str],
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    most: int = MAX_BAD,
) -> VerifyReport:
    """Verify a dataset.

    Args:
        path: its folder, or a source that is read in place: then its index is verified, and every
            image and mask is decoded.
        workers: number of processes; None for one per usable processor.
        progress: called with (rows done, total rows), in this thread.
        most: how many bad rows are listed.

    Raises:
        DatasetError: it cannot be opened.
        VersionError: it was packed by a newer Stoker.
        DataError: a worker process died.
    """
    if workers is not None:
        check_workers(workers)
    with open_dataset(path) as dataset:
        folder, manifest = dataset.path, dataset.manifest
    if manifest.fingerprint.startswith("declared:"):
        raise UsageError(
            f"expected a packed dataset or a source read in place, got the live source {path}, "
            "which stores nothing to verify"
        )
    workers = default_workers() if workers is None else workers
    bad_files = tuple(
        part.name
        for file in manifest.files
        for part in file.parts
        if file_digest(folder / part.name) != part.digest
    )
    bad, rows = _verify_rows(folder, manifest, workers, progress, most)
    digests = row_digests(folder, manifest.files)
    source = manifest.source
    fingerprint = dataset_fingerprint(
        manifest.schema.fields,
        manifest.rows,
        digests,
        None if source is UNSET else source.files,
        manifest.fingerprint.partition(":")[0],
    )
    return VerifyReport(
        rows=manifest.rows,
        bad=bad,
        bad_rows=tuple(rows),
        bad_files=bad_files,
        fingerprint=manifest.fingerprint,
        fingerprint_holds=fingerprint == manifest.fingerprint,
    )


def _verify_rows(
    folder: Path,
    manifest: Manifest,
    workers: int,
    progress: Callable[[int, int], None] | None,
    most: int,
) -> tuple[int, list[BadRow]]:
    jobs = [
        Job(
            verify_rows,
            msgspec.to_builtins(RowsJob(str(folder), start, stop, most)),
            f"verifying rows {start} to {stop - 1}",
        )
        for start, stop in _ranges(manifest.rows)
    ]
    done = 0

    def report(rows: int, _: int) -> None:
        nonlocal done
        done += rows
        if progress is not None:
            progress(done, manifest.rows)

    with contextlib.closing(run_jobs(jobs, workers, report)) as results:
        found = {
            number: msgspec.convert(result, analyzed(RowsResult)) for number, result in results
        }
    rows = [row for number in sorted(found) for row in found[number].rows]
    return sum(result.bad for result in found.values()), rows[:most]


def _ranges(rows: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, ROWS_PER_JOB):
        yield start, min(rows, start + ROWS_PER_JOB)
