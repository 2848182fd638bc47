"""Packing a source: scan, cut, pack the pieces in parallel, commit.

The source is scanned into a listing in its final order. It is cut into files by the sizes of its
items alone, so neither the number of workers nor their timing changes a byte. Each finished file
has a record in the work folder, keyed by the digest of its part of the listing (paths, sizes,
times): a later run keeps every file whose key and content still match, and redoes the rest. The
manifest is written last.

All bad items (unreadable, not an image, without partner, of different sizes) are collected and
listed; then packing fails, or with `skip_bad` continues without them.
"""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from stoker.dataset.format.field_checks import check_schema
from stoker.dataset.format.fields import PLANES, Field, Schema
from stoker.dataset.format.image_conversion import Conversion, check_conversion, encoding_after
from stoker.dataset.format.manifest import Manifest, Source
from stoker.dataset.format.manifest_splits import Splits
from stoker.dataset.format.optional_fields import with_presence
from stoker.dataset.format.schema import (
    encoded_as,
    keep_orientation,
    may_have_grid,
    referenced,
    with_grid,
)
from stoker.dataset.format.summary import Summary
from stoker.dataset.images.gridding import compile_planes
from stoker.dataset.packing.append import Base
from stoker.dataset.packing.build import (
    MAX_BAD,
    Cut,
    commit,
    disk_errors,
    memory_errors,
    open_work,
    with_row_columns,
)
from stoker.dataset.packing.class_numbers import different_numbers
from stoker.dataset.packing.cutting import Destination, How, default_cut, index_cut, plan_jobs
from stoker.dataset.packing.exif_turned import turned_images
from stoker.dataset.packing.kept_files import kept_records
from stoker.dataset.packing.pack_shard import ShardJob, pack_shard
from stoker.dataset.packing.pool import Job, check_workers, default_workers, run_jobs
from stoker.dataset.packing.shard import ShardRecord
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.kinds import AUTO, KINDS, check_kinds, scan_source, unknown_kind
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import DatasetError, UsageError

MASKS = ("semantic", "instance")
APPLY, KEEP = "apply", "keep"


@dataclass(frozen=True)
class Options:
    """Options of packing.

    Attributes:
        kind: kind of the source, a name in `sources.kinds.KINDS`; "auto" recognizes it.
        workers: number of processes; None for one per usable processor.
        overwrite: replace an existing dataset, once the new one is complete.
        skip_bad: leave bad items out instead of failing.
        fields: NAME -> KIND of fields that the source does not declare: for parallel folders,
            folder name -> "image" or "mask".
        images: folder of the images, if paths in the source are not relative to the source.
        classes: names of the classes of labels, in the order of their numbers; empty: the classes
            that are found, in alphabetical order.
        split: which part of the source to use, if it has several, such as "train".
        masks: what is painted from outlines of objects, "semantic" or "instance"; empty: no mask.
        clip: clip boxes to their image and leave out keypoints outside of it, instead of treating
            the sample as bad.
        all_keypoints: keep keypoints that are not labeled (visibility 0), so that each skeleton has
            all its points.
        conversion: conversions of images and masks before they are stored.
        cut: where rows are cut into files; None: about 64 pieces of 4 MiB to 1 GiB.
        max_bad: how many bad items are listed.
        grid: rewrite JPEGs on a grid, with the same pixels, so that crops decode faster.
        encoding: how JPEGs are stored: "planes" as bit planes, which decode faster, with the same
            pixels; "" as JPEGs.
        append: add samples to an existing dataset, see `stoker.dataset.packing.append`.
        in_place: make an index: images, masks, arrays and bytes stay in the source's files.
        orientation: for images that EXIF turns: "apply" it, so that they are upright, or "keep"
            their pixels as stored.
        bands: store masks in compressed bands of rows instead of their files; the same classes.
    """

    kind: str = AUTO
    workers: int | None = None
    overwrite: bool = False
    skip_bad: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None
    classes: tuple[str, ...] = ()
    split: str = ""
    masks: str = ""
    clip: bool = False
    all_keypoints: bool = False
    conversion: Conversion = field(default_factory=Conversion)
    cut: Cut | None = None
    max_bad: int = MAX_BAD
    grid: bool = True
    bands: bool = True
    encoding: str = ""
    append: bool = False
    in_place: bool = False
    orientation: str = APPLY


@dataclass
class Progress:
    """The progress of packing; the callback gets the same object each time."""

    rows_total: int
    bytes_total: int
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class PackReport:
    """The result of packing.

    Attributes:
        manifest: the manifest of the dataset.
        kind: the kind of the source.
        ignored: what was ignored in the source, with counts.
        resumed_rows: number of rows that an earlier run had finished.
        seconds: duration of the run.
        warnings: for people: datasets in the same folder that number the same classes differently.
    """

    manifest: Manifest
    kind: str
    ignored: dict[str, int]
    resumed_rows: int
    seconds: float
    warnings: tuple[str, ...] = ()


def pack(
    source: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    options: Options | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> PackReport:
    """Pack a source as a dataset.

    Args:
        source: a path, of any kind in `stoker.dataset.sources.kinds`.
        dest: folder of the dataset; created if it is missing.
        options: how to pack.
        progress: called now and then, in this thread.

    Raises:
        UsageError: the source has no known kind, or the place is taken.
        DatasetError: items are bad (all are listed), or nothing is left.
        ResourceError: the disk is full, or the memory does not suffice.
        DataError: a worker process died.
    """
    started, options = time.monotonic(), options or Options()
    folder, name = Path(dest), os.fspath(source)
    scan = _scan(name, options)
    _check_places(Path(source), folder)
    fields = _stored(scan, options)
    there: list[ShardRecord] = []
    first = rows_before = 0
    splits: Splits | UnsetType = UNSET
    if options.append:
        base, new = Base(folder), fields
        fields = base.join(new)
        known = len(scan.items)
        scan.items = base.new(scan.items, new, fields)
        scan.ignored["samples that are there already"] += known - len(scan.items)
        there, first = base.records(), base.first
        splits, rows_before = base.manifest.splits, base.manifest.rows
    schema = with_row_columns(Schema(with_presence(fields)), source=True)
    check_schema(schema)
    with open_work(folder, options.overwrite or options.append) as work, disk_errors(folder):
        cut = options.cut or (index_cut if options.in_place else default_cut)(scan.items)
        how = How(options.conversion, options.max_bad)
        jobs = plan_jobs(scan, schema, Destination(folder, work, first), cut, how)
        records = kept_records(folder, work, jobs)
        kept = [job for job in jobs if job.index in records]
        resumed = sum(records[job.index].summary.rows for job in kept)
        report = _reporter(jobs, progress)
        report(sum(job.count for job in kept), sum(job.size_bytes for job in kept))
        _run([job for job in jobs if job.index not in records], options, records, report)
        ordered = [_scan_record(scan, options), *(records[job.index] for job in jobs)]
        if not options.skip_bad:
            _judge(name, ordered, options.max_bad)
        source_of = _source(name, scan, options)
        manifest = commit(folder, schema, [*there, *ordered], source_of, splits)
    warnings = tuple(scan.remarks)
    warnings += () if options.in_place else tuple(different_numbers(folder, schema))
    if splits is not UNSET and manifest.rows > rows_before:
        warnings += (
            f"the new samples are in no split of the dataset ({', '.join(splits.names)}); make the "
            "splits again with stoker split --overwrite to divide them too",
        )
    warnings += tuple(turned_images(manifest))
    seconds = time.monotonic() - started
    return PackReport(manifest, scan.kind, dict(scan.ignored), resumed, seconds, warnings)


def check_options(options: Options) -> None:
    """Refuse options that fit no source, before any file is read.

    Raises:
        UsageError: one is unknown or impossible, or two exclude each other.
    """
    if options.kind not in (AUTO, *KINDS):
        raise unknown_kind(options.kind)
    if options.workers is not None:
        check_workers(options.workers)
    check_kinds(options.kind, options.fields)
    if options.masks not in ("", *MASKS):
        raise UsageError(f"--masks: expected {' or '.join(MASKS)}, got {options.masks!r}")
    if options.orientation not in (APPLY, KEEP):
        raise UsageError(f"--orientation: expected apply or keep, got {options.orientation!r}")
    check_conversion(options.conversion)
    _check_encoding(options)
    if options.append and (options.overwrite or options.in_place):
        raise UsageError(
            "--append adds to a dataset, so it excludes --overwrite; leave --overwrite out"
        )
    if options.in_place and options.orientation == KEEP:
        raise UsageError(
            "an index always applies the EXIF orientation; to keep it, pack the source"
        )


def _scan(name: str, options: Options) -> SourceScan:
    check_options(options)
    with memory_errors(name):
        return scan_source(name, options.kind, _request(options))


def _stored(scan: SourceScan, options: Options) -> tuple[Field, ...]:
    """Return a source's fields with their stored encodings."""
    if options.in_place:
        return _referenced(scan)
    return tuple(stored_as(one, options) for one in scan.fields)


def stored_as(one: Field, options: Options) -> Field:
    """Return a declared field with its stored encoding."""
    encoding = one.encoding
    if one.kind == "image":
        encoding = encoding_after(options.conversion, encoding)
        if options.encoding and encoding == "encoded":
            encoding = options.encoding
    elif one.kind == "mask" and options.bands:
        encoding = "bands"
    stored = one if encoding == one.encoding else encoded_as(one, encoding)
    if options.orientation == KEEP and one.is_picture:
        stored = keep_orientation(stored)
    return with_grid(stored) if options.grid and may_have_grid(stored) else stored


def _check_encoding(options: Options) -> None:
    if options.encoding not in ("", PLANES):
        raise UsageError(f"--encoding: expected {PLANES}, got {options.encoding!r}")
    if options.encoding and (options.conversion.raw or not options.grid):
        other = "--raw" if options.conversion.raw else "--no-grid"
        raise UsageError(
            f"--encoding {options.encoding} stores JPEGs on a grid, so it excludes {other}; leave "
            "one of them out"
        )


def _referenced(scan: SourceScan) -> tuple[Field, ...]:
    """Return a source's fields as in an index."""
    if not scan.in_place:
        raise UsageError(
            f"{scan.root}: this source ({scan.kind}) cannot be read in place, only tar and "
            "Arrow files can; pack it"
        )
    lacking = [one.name for one in scan.fields if one.optional]
    if lacking:
        raise UsageError(
            f"{scan.root}: samples may lack {', '.join(lacking)}, but an index has a place for "
            "every value; pack the source"
        )
    deep = [one.name for one in scan.fields if one.is_picture and not one.fits_files]
    if deep:
        raise UsageError(
            f"an index has only images and masks of 8 bits, but {', '.join(deep)} has more; "
            "pack the source"
        )
    return tuple(map(referenced, scan.fields))


def _source(name: str, scan: SourceScan, options: Options) -> Source | UnsetType:
    """Return the description of the source in an index."""
    if not options.in_place:
        return UNSET
    return Source(
        name=os.path.abspath(name),
        kind=scan.kind,
        fields=dict(options.fields),
        skip_bad=options.skip_bad,
        root=str(scan.root.resolve()),
        files=tuple(container.file for container in scan.containers),
    )


def _request(options: Options) -> Request:
    return Request(
        asked=options.kind != AUTO,
        fields=options.fields,
        images=options.images,
        classes=options.classes,
        split=options.split,
        masks=options.masks,
        clip=options.clip,
        all_keypoints=options.all_keypoints,
    )


def _check_places(source: Path, folder: Path) -> None:
    if source.is_dir() and folder.resolve().is_relative_to(source.resolve()):
        raise UsageError(
            f"the dataset {folder} would be inside its own source {source}; choose another place"
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, but a dataset is a folder; choose another place")


def _reporter(
    jobs: list[ShardJob], progress: Callable[[Progress], None] | None
) -> Callable[[int, int], None]:
    state = Progress(sum(job.count for job in jobs), sum(job.size_bytes for job in jobs))

    def report(rows: int, size_bytes: int) -> None:
        state.rows += rows
        state.size_bytes += size_bytes
        if progress is not None:
            progress(state)

    return report


def _run(
    jobs: list[ShardJob],
    options: Options,
    records: dict[int, ShardRecord],
    report: Callable[[int, int], None],
) -> None:
    if any(field.encoding == PLANES for job in jobs[:1] for field in job.recipe.schema.fields):
        compile_planes()
    work = [
        Job(pack_shard, msgspec.to_builtins(job), f"packing file {job.index} ({job.count} rows)")
        for job in jobs
    ]
    workers = default_workers() if options.workers is None else options.workers
    with contextlib.closing(run_jobs(work, workers, report)) as results:
        for number, result in results:
            records[jobs[number].index] = msgspec.convert(
                result, analyzed(ShardRecord), str_keys=True
            )


def _scan_record(scan: SourceScan, options: Options) -> ShardRecord:
    """Return the bad items of the scan, as the record of a file without rows."""
    summary = Summary()
    for path, reason in scan.bad:
        summary.add_bad(path, reason, options.max_bad)
    for what, names in scan.notes.items():
        for name in names:
            summary.note(what, name)
    return ShardRecord(None, summary)


def _judge(source: str, records: list[ShardRecord], limit: int) -> None:
    total = Summary()
    for record in records:
        total.merge(record.summary, limit)
    if not total.bad:
        return
    lines = [f"  {path}: {reason}" for path, reason in total.bad_examples]
    if total.bad > len(lines):
        lines.append(f"  ... and {total.bad - len(lines)} more")
    raise DatasetError(
        f"{total.bad} of {total.bad + total.rows} samples of {source} cannot be packed:\n"
        + "\n".join(lines)
        + "\nrepair or remove them and run the same command again (finished work is kept), or pass "
        "--skip-bad to leave them out",
        bad=total.bad,
    )
