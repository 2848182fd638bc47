"""What `pack`, `verify` and `ls` print: progress, tables and notes, with Rich."""

import json
from pathlib import Path
from typing import Any

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
from stoker.dataset.packing.pack import PackReport
from stoker.dataset.reading.describe import describe
from stoker.dataset.verify import VerifyReport
from stoker.server.commands.plain_output import output_console, print_table
from stoker.server.commands.readable_units import number_of, size_text


def progress_bar(what: str) -> Progress:
    """Return a progress bar on stderr: samples done, rate and time left."""
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
    """Samples per second and, where bytes are known, bytes per second, since the start."""

    def render(self, task: Task) -> Text:
        """Return the rates, or nothing before the first sample."""
        elapsed = task.elapsed or 0.0
        if elapsed <= 0 or not task.completed:
            return Text("")
        rate = f"{task.completed / elapsed:.0f}/s"
        if size_bytes := task.fields.get("size_bytes"):
            rate += f" {size_text(size_bytes / elapsed)}/s"
        return Text(rate)


def print_packed(
    dest: str | Path, report: PackReport, done: str = "packed", *, as_json: bool = False
) -> None:
    """Print what was packed, and what was skipped: for people, or as one object of JSON."""
    for text in report.warnings:
        Console(stderr=True).print(Text(f"warning: {text}"))
    with open_dataset(dest) as opened:
        data = describe(opened, 0)
    if as_json:
        del data["samples"]
        how = {"resumed_rows": report.resumed_rows, "seconds": report.seconds}
        typer.echo(json.dumps({**data, "kind": report.kind, "ignored": report.ignored, **how}))
        return
    manifest, console = report.manifest, output_console()
    size_bytes = manifest.size_bytes
    console.print(
        Text(
            f"{done} {manifest.rows} samples ({report.kind}) into {dest}: "
            f"{number_of(len(manifest.files), 'file')}, {size_text(size_bytes)}, "
            f"{report.seconds:.1f} s"
        )
    )
    if report.resumed_rows:
        console.print(Text(f"{report.resumed_rows} of them were kept from an earlier run"))
    console.print(Text(manifest.fingerprint))
    print_fields(console, data["fields"])
    for what, count in sorted(report.ignored.items()):
        console.print(Text(f"ignored: {count} {what}"))
    print_notes(console, data["notes"], data["skipped"], data["skipped_examples"])


def print_verified(dataset: str, report: VerifyReport) -> None:
    """Print what `verify` found."""
    console = output_console()
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
        print_table(console, table)


def print_fields(console: Console, fields: list[dict[str, Any]]) -> None:
    """Print the fields of a dataset: a table, and below it what does not fit its columns."""
    table = Table("field", "kind", "value", "stored", "height x width")
    for field in fields:
        seen = field["statistics"] or {}
        raw = field["encoding"] == "raw"
        kind = field.get("vectors") or field["kind"]
        table.add_row(
            *map(
                Text,
                (
                    field["name"],
                    kind if raw else f"{kind} ({field['encoding']})",
                    f"{field['dtype']} {_shape(field['shape'])}",
                    size_text(seen.get("data_bytes", 0)),
                    _sides(seen),
                ),
            )
        )
    print_table(console, table)
    for field in fields:
        if more := _more(field, field["statistics"] or {}):
            console.print(Text(f"{field['name']}: {more}"))


def _shape(shape: list[int | None]) -> str:
    return "(" + ", ".join("?" if side is None else str(side) for side in shape) + ")"


def _sides(seen: dict[str, Any]) -> str:
    sides = [seen.get("height"), seen.get("width")]
    return " x ".join(_side(*side) for side in sides if side is not None)


def _side(low: int, high: int, mean: float) -> str:
    return f"{low}" if low == high else f"{low}-{high} (mean {mean:.0f})"


def _more(field: dict[str, Any], seen: dict[str, Any]) -> str:
    parts = []
    if field.get("optional"):
        fill = f"fill {field['fill']}" if "fill" in field else "empty where it is absent"
        parts.append(f"optional, {fill}")
    if field.get("relative"):
        parts.append("of another size than its image")
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
    return f", {size_text(came)} before, {abs(change):.1%} {how} now"


def _counted(names: list[str], counts: list[int]) -> list[str]:
    return [f"{name}: {count}" for name, count in zip(names, counts, strict=False)]


def print_notes(
    console: Console, notes: list[dict[str, Any]], skipped: int, examples: list[list[str]]
) -> None:
    """Print the notes of a source: files that were skipped, with examples."""
    for note in notes:
        console.print(
            Text(
                f"note: {note['what']}: {number_of(note['count'], 'file')}, "
                f"such as {note['examples'][0]}"
            )
        )
    if skipped:
        console.print(Text(f"left out as bad: {skipped} samples"))
        for path, reason in examples:
            console.print(Text(f"  {path}: {reason}"))


def print_samples(console: Console, samples: list[dict[str, Any]]) -> None:
    """Print the first samples: as a table if it fits the terminal, otherwise a line for a value."""
    names = list(samples[0]["fields"])
    table = Table("id", "source", *names)
    for sample in samples:
        values = (str(sample["fields"][name]) for name in names)
        table.add_row(*map(Text, (str(sample["id"]), sample["source"] or "", *values)))
    if console.measure(table).maximum <= console.width:
        print_table(console, table)
        return
    for sample in samples:
        console.print(Text(f"sample {sample['id']}: {sample['source'] or ''}"))
        for name in names:
            console.print(Text(f"  {name}: {sample['fields'][name]}"))
