"""`stoker pack`, `stoker verify` and `stoker ls`: make, check and show packed datasets.

Faults are raised as StokerError and printed by the program's main; a dataset that `verify` finds
bad is no fault of the call: it is reported in full, and the exit status is 1.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from stoker.dataset import open_dataset
from stoker.dataset.format.convert import Conversion
from stoker.dataset.packing.in_place import index_folder, make_index
from stoker.dataset.packing.pack import APPLY, Options, PackReport
from stoker.dataset.packing.pack import Progress as PackProgress
from stoker.dataset.packing.pack import pack as pack_dataset
from stoker.dataset.reading.describe import describe
from stoker.dataset.sources.common.classes import read_classes
from stoker.dataset.sources.kinds import AUTO, KINDS
from stoker.dataset.verify import MAX_BAD, VerifyReport
from stoker.dataset.verify import verify as verify_dataset
from stoker.protocol.errors import UsageError

ALL_BAD = 2**48


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
    split: Annotated[str, typer.Option(help="Which split, where SOURCE has several.")] = "",
    masks: Annotated[
        str, typer.Option(help="Paint outlines of objects as a mask: semantic or instance.")
    ] = "",
    clip: Annotated[
        bool, typer.Option("--clip", help="Clip boxes that reach out of their picture.")
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
) -> None:
    """Pack a source as a dataset: in parallel, resumably, losslessly unless asked otherwise."""
    options = Options(
        kind=kind,
        workers=workers,
        overwrite=overwrite,
        append=append,
        skip_bad=skip_bad,
        images=images,
        classes=() if classes is None else read_classes(classes),
        split=split,
        masks=masks,
        clip=clip,
        conversion=Conversion(resize, quality, raw),
        fields=dict(_assignment(text) for text in field or []),
        grid=grid,
        orientation=orientation,
        bands=bands,
    )
    with _bar("packing") as bar:
        task = bar.add_task("packing", total=None)

        def show(state: PackProgress) -> None:
            bar.update(
                task, completed=state.rows, total=state.rows_total, size_bytes=state.size_bytes
            )

        report = pack_dataset(source, dest, options, show)
    _print_packed(dest, report)


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
) -> None:
    """Index a source, so that it is served in place, without packing."""
    options = Options(
        kind=kind,
        workers=workers,
        skip_bad=skip_bad,
        fields=dict(_assignment(text) for text in field or []),
    )
    with _bar("indexing") as bar:
        task = bar.add_task("indexing", total=None)

        def show(state: PackProgress) -> None:
            bar.update(task, completed=state.rows, total=state.rows_total)

        report = make_index(source, options, show)
    _print_packed(index_folder(source), report, "indexed")


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
    """Decode every sample of a dataset and compare every hash; exit status 1 if anything is bad."""
    with _bar("verifying") as bar:
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
        _print_verified(dataset, report)
    if not report.holds:
        raise typer.Exit(1)


def ls(
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    samples: Annotated[int, typer.Option(min=0, help="How many samples to show.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show a dataset: its fields, statistics and first samples."""
    with open_dataset(dataset) as opened:
        data = describe(opened, samples)
    if as_json:
        typer.echo(json.dumps(data))
        return
    console = Console()
    console.print(
        Text(
            f"{data['path']}: {data['rows']} samples in {_count(data['files'], 'file')}, "
            f"{_size(data['size_bytes'])}, {data['fingerprint']}"
        )
    )
    console.print(_field_table(data["fields"]))
    _print_notes(console, data["notes"], data["skipped"], data["skipped_examples"])
    if data["samples"]:
        console.print(_sample_table(data["samples"]))


def _assignment(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name or not value:
        raise UsageError(f"--field: expected NAME=KIND, such as masks=mask, got {text!r}")
    return name, value


def _bar(what: str) -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        _RateColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class _RateColumn(ProgressColumn):
    """Samples per second and, where bytes are told, bytes per second, since the start."""

    def render(self, task: Task) -> Text:
        """Return the rates, or nothing before the first sample."""
        elapsed = task.elapsed or 0.0
        if elapsed <= 0 or not task.completed:
            return Text("")
        rate = f"{task.completed / elapsed:.0f}/s"
        if size_bytes := task.fields.get("size_bytes"):
            rate += f" {_size(size_bytes / elapsed)}/s"
        return Text(rate)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _size(size_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "bytes" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def _print_packed(dest: str | Path, report: PackReport, done: str = "packed") -> None:
    manifest, console = report.manifest, Console()
    size_bytes = sum(file.size_bytes for file in manifest.files)
    console.print(
        Text(
            f"{done} {manifest.rows} samples ({report.kind}) into {dest}: "
            f"{_count(len(manifest.files), 'file')}, {_size(size_bytes)}, {report.seconds:.1f} s"
        )
    )
    if report.resumed_rows:
        console.print(Text(f"{report.resumed_rows} of them were kept from an earlier run"))
    console.print(Text(manifest.fingerprint))
    with open_dataset(dest) as opened:
        data = describe(opened, 0)
    console.print(_field_table(data["fields"]))
    for what, count in sorted(report.ignored.items()):
        console.print(Text(f"ignored: {count} {what}"))
    _print_notes(console, data["notes"], data["skipped"], data["skipped_examples"])


def _print_verified(dataset: str, report: VerifyReport) -> None:
    console = Console()
    if report.holds:
        console.print(Text(f"{dataset}: {report.rows} samples, all good, {report.fingerprint}"))
        return
    console.print(Text(f"{dataset}: {report.bad} of {report.rows} samples are bad"))
    for name in report.bad_files:
        console.print(Text(f"  {name}: its content no longer has the hash in the manifest"))
    if not report.fingerprint_holds:
        console.print(Text(f"  the content no longer has the fingerprint {report.fingerprint}"))
    if report.bad_rows:
        table = Table("id", "field", "source", "reason")
        for row in report.bad_rows:
            table.add_row(*map(Text, (str(row.id), row.field, row.source, row.reason)))
        console.print(table)


def _field_table(fields: list[dict[str, Any]]) -> Table:
    table = Table("field", "kind", "encoding", "value", "stored", "height x width", "more")
    for field in fields:
        seen = field["statistics"] or {}
        table.add_row(
            *map(
                Text,
                (
                    field["name"],
                    field["kind"],
                    field["encoding"],
                    f"{field['dtype']} {_shape(field['shape'])}",
                    _size(seen.get("data_bytes", 0)),
                    _sides(seen),
                    _more(field, seen),
                ),
            )
        )
    return table


def _shape(shape: list[int | None]) -> str:
    return "(" + ", ".join("?" if side is None else str(side) for side in shape) + ")"


def _sides(seen: dict[str, Any]) -> str:
    sides = [seen.get("height"), seen.get("width")]
    return " x ".join(_side(*side) for side in sides if side is not None)


def _side(low: int, high: int, mean: float) -> str:
    return f"{low}" if low == high else f"{low}-{high} (mean {mean:.0f})"


def _more(field: dict[str, Any], seen: dict[str, Any]) -> str:
    parts = []
    if field.get("keeps_orientation"):
        parts.append("EXIF orientation kept")
    if seen.get("turned"):
        parts.append(f"{seen['turned']} turned by EXIF")
    if seen.get("gridded"):
        rows = f", {seen['by_rows']} of them by rows alone" if seen.get("by_rows") else ""
        parts.append(f"{seen['gridded']} JPEGs with a grid for crops{rows}{_change(seen)}")
    if "items" in field:
        fields = [
            f"{name} {dtype}" + (f"[{width}]" if width > 1 else "")
            for name, dtype, width in field["items"]["fields"]
        ]
        parts.append(f"up to {field['bound'][0]}, each {', '.join(fields)}")
    if field["classes"]:
        counts = seen.get("per_class")
        shown = field["classes"] if counts is None else _counted(field["classes"], counts)
        rest = f", ... ({len(shown)} classes)" if len(shown) > 10 else ""
        parts.append(", ".join(shown[:10]) + rest)
    return "; ".join(parts)


def _change(seen: dict[str, Any]) -> str:
    """Say how the grid changed the size of JPEGs; datasets of before do not know."""
    came = seen.get("came_bytes", 0)
    if not came:
        return ""
    change = seen["gridded_bytes"] / came - 1
    how = "larger" if change > 0 else "smaller"
    return f", {_size(came)} before, {abs(change):.1%} {how} now"


def _counted(names: list[str], counts: list[int]) -> list[str]:
    return [f"{name}: {count}" for name, count in zip(names, counts, strict=False)]


def _print_notes(
    console: Console, notes: list[dict[str, Any]], skipped: int, examples: list[list[str]]
) -> None:
    for note in notes:
        console.print(
            Text(
                f"note: {note['what']}: {_count(note['count'], 'file')}, "
                f"such as {note['examples'][0]}"
            )
        )
    if skipped:
        console.print(Text(f"left out as bad: {skipped} samples"))
        for path, reason in examples:
            console.print(Text(f"  {path}: {reason}"))


def _sample_table(samples: list[dict[str, Any]]) -> Table:
    names = list(samples[0]["fields"])
    table = Table("id", "source", *names)
    for sample in samples:
        values = (str(sample["fields"][name]) for name in names)
        table.add_row(*map(Text, (str(sample["id"]), sample["source"] or "", *values)))
    return table
