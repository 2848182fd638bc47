"""`stoker pack`, `stoker verify` and `stoker ls`: make, check and show packed datasets.

Faults are raised as StokerError and printed by the program's main; a dataset that `verify` finds
bad is not a fault of the call: it is reported in full, and the exit status is 1.
"""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from stoker.dataset import open_dataset
from stoker.dataset.format.image_conversion import Conversion
from stoker.dataset.packing.class_numbers import classes_of as numbers_of
from stoker.dataset.packing.in_place import index_folder, make_index
from stoker.dataset.packing.pack import APPLY, Options, check_options
from stoker.dataset.packing.pack import Progress as PackProgress
from stoker.dataset.packing.pack import pack as pack_dataset
from stoker.dataset.reading.describe import describe
from stoker.dataset.sources.common.class_order import read_classes
from stoker.dataset.sources.kinds import AUTO, KINDS
from stoker.dataset.verify import MAX_BAD
from stoker.dataset.verify import verify as verify_dataset
from stoker.protocol.errors import UsageError
from stoker.server.commands import exit_statuses
from stoker.server.commands.dataset_tables import (
    print_fields,
    print_notes,
    print_packed,
    print_samples,
    print_verified,
    progress_bar,
)
from stoker.server.commands.named_values import named
from stoker.server.commands.plain_output import output_console
from stoker.server.commands.readable_units import number_of, size_text
from stoker.server.inspect.output_path import check_out

ALL_BAD = 2**48
AsJson = Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")]
FIELD_FORM = "NAME=KIND, such as masks=mask"
INTERRUPTED = (
    "interrupted; run the same command again to continue: finished files are kept, except those of "
    "Python objects without a fingerprint"
)


def pack(  # noqa: PLR0913, PLR0917 - one parameter a flag
    source: Annotated[str, typer.Argument(help="Folder or file to pack, of a kind below.")],
    dest: Annotated[str, typer.Argument(help="Folder of the dataset, made if missing.")],
    kind: Annotated[str, typer.Option(help=f"What SOURCE is: {', '.join((AUTO, *KINDS))}.")] = AUTO,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of the pictures, if paths are not relative to SOURCE's own."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes; default: one per processor.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a dataset that is at DEST.")
    ] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Add what DEST does not have to the dataset there.")
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out what cannot be packed, and list it.")
    ] = False,
    field: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=KIND of a folder, column or array, such as masks=mask; repeatable."
        ),
    ] = None,
    classes: Annotated[
        Path | None,
        typer.Option(help="File with the names of classes, one a line, in their numbers' order."),
    ] = None,
    classes_of: Annotated[
        Path | None,
        typer.Option(help="Packed dataset whose numbers of classes are used, as for a test set."),
    ] = None,
    split: Annotated[str, typer.Option(help="The split to pack, if SOURCE has several.")] = "",
    masks: Annotated[
        str, typer.Option(help="Paint outlines of objects as a mask: semantic or instance.")
    ] = "",
    clip: Annotated[
        bool, typer.Option("--clip", help="Clip boxes that reach out of their picture.")
    ] = False,
    all_keypoints: Annotated[
        bool,
        typer.Option("--all-keypoints", help="Keep keypoints that are not labeled: visibility 0."),
    ] = False,
    resize: Annotated[
        int | None,
        typer.Option(help="Make pictures smaller whose shorter side is longer than that."),
    ] = None,
    quality: Annotated[
        int | None, typer.Option(help="Store images as JPEG of this quality, with loss.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Store images as raw pixels.")] = False,
    orientation: Annotated[
        str,
        typer.Option(help="Of pictures that EXIF turns: apply it, or keep pixels as stored."),
    ] = APPLY,
    grid: Annotated[
        bool,
        typer.Option(
            "--grid/--no-grid",
            help="Rewrite JPEGs, with the same pixels, so that crops of them decode faster.",
        ),
    ] = True,
    bands: Annotated[
        bool,
        typer.Option(
            "--bands/--no-bands",
            help="Store masks, with the same classes, so that they and crops of them decode fast.",
        ),
    ] = True,
    encoding: Annotated[
        str,
        typer.Option(help="Store JPEGs as bit planes, which decode faster: planes."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Pack a source as a dataset: in parallel, resumably, losslessly unless asked otherwise.

    Examples: `stoker pack photos packed`,
    `stoker pack instances.json packed --images pictures --masks semantic`,
    `stoker pack 'shards/*.tar' packed --field seg.png=mask`.
    """
    if classes is not None and classes_of is not None:
        raise UsageError("--classes and --classes-of exclude each other; leave one of them out")
    options = Options(
        kind=kind,
        workers=workers,
        overwrite=overwrite,
        append=append,
        skip_bad=skip_bad,
        images=images,
        split=split,
        masks=masks,
        clip=clip,
        all_keypoints=all_keypoints,
        conversion=Conversion(resize, quality, raw),
        fields=named("--field", field, FIELD_FORM),
        grid=grid,
        orientation=orientation,
        bands=bands,
        encoding=encoding,
    )
    check_options(options)
    listed = () if classes is None else read_classes(classes)
    names = listed if classes_of is None else numbers_of(classes_of)
    options = dataclasses.replace(options, classes=names)
    with progress_bar("packing") as bar:
        task = bar.add_task("packing", total=None)

        def show(state: PackProgress) -> None:
            bar.update(
                task, completed=state.rows, total=state.rows_total, size_bytes=state.size_bytes
            )

        try:
            report = pack_dataset(source, dest, options, show)
        except KeyboardInterrupt:
            bar.stop()
            typer.echo(f"stoker: {INTERRUPTED}", err=True)
            raise typer.Exit(exit_statuses.INTERRUPTED) from None
    print_packed(dest, report, as_json=as_json)


def index(
    source: Annotated[str, typer.Argument(help="Tars or Arrow files: a folder, file or pattern.")],
    kind: Annotated[str, typer.Option(help="What SOURCE is: webdataset or huggingface.")] = AUTO,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes; default: one per processor.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out what cannot be read, and list it.")
    ] = False,
    field: Annotated[
        list[str] | None,
        typer.Option(help="NAME=KIND of a part or column, such as seg.png=mask; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Index a source, so that it is served in place, without packing.

    Example: `stoker index 'shards/*.tar' --field seg.png=mask`.
    """
    options = Options(
        kind=kind,
        workers=workers,
        skip_bad=skip_bad,
        fields=named("--field", field, FIELD_FORM),
    )
    with progress_bar("indexing") as bar:
        task = bar.add_task("indexing", total=None)

        def show(state: PackProgress) -> None:
            bar.update(task, completed=state.rows, total=state.rows_total)

        report = make_index(source, options, show)
    print_packed(index_folder(source), report, "indexed", as_json=as_json)


def verify(
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    workers: Annotated[
        int | None, typer.Option(help="Worker processes; default: one per processor.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    listing: Annotated[
        Path | None,
        typer.Option("--list", help="Write every bad sample, one JSON object a line."),
    ] = None,
) -> None:
    """Decode every sample of a dataset and compare every hash; exit status 1 if anything is bad.

    Examples: `stoker verify packed`, `stoker verify packed --list bad.jsonl`.
    """
    if listing is not None:
        check_out("--list", listing)
    with progress_bar("verifying") as bar:
        task = bar.add_task("verifying", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        most = MAX_BAD if listing is None else ALL_BAD
        report = verify_dataset(dataset, workers, show, most)
    if listing is not None:
        lines = [json.dumps(msgspec.structs.asdict(row)) + "\n" for row in report.bad_rows]
        listing.write_text("".join(lines))
        report = msgspec.structs.replace(report, bad_rows=report.bad_rows[:MAX_BAD])
    if as_json:
        typer.echo(json.dumps({"holds": report.holds, **msgspec.to_builtins(report)}))
    else:
        print_verified(dataset, report)
    if not report.holds:
        raise typer.Exit(exit_statuses.FAILED)


def ls(
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    samples: Annotated[int, typer.Option(min=0, help="Number of samples to show.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show a dataset: its fields, statistics and first samples.

    Examples: `stoker ls packed`, `stoker ls packed --samples 0 --json`.
    """
    with open_dataset(dataset) as opened:
        data = describe(opened, samples)
    if as_json:
        typer.echo(json.dumps(data))
        return
    console = output_console()
    console.print(
        Text(
            f"{data['path']}: {data['rows']} samples in {number_of(data['files'], 'file')}, "
            f"{size_text(data['size_bytes'])}, {data['fingerprint']}"
        )
    )
    for name, rows in data["splits"].items():
        console.print(Text(f"split {name}: {number_of(rows, 'sample')}"))
    print_fields(console, data["fields"])
    print_notes(console, data["notes"], data["skipped"], data["skipped_examples"])
    if data["samples"]:
        print_samples(console, data["samples"])
