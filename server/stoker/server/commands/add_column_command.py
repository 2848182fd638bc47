"""`stoker add-column`: a packed dataset gets a further field."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from stoker.dataset.packing.add_column import add_column as add_to_dataset
from stoker.server.commands import exit_statuses
from stoker.server.commands.dataset_tables import progress_bar
from stoker.server.commands.readable_units import number_of, size_text


def add_column(
    dataset: Annotated[Path, typer.Argument(help="Folder of the dataset.")],
    name: Annotated[str, typer.Argument(help="Name of the new field, and of the column.")],
    values: Annotated[
        Path,
        typer.Argument(help="A .csv, .tsv, .parquet or .jsonl with source or row, or an .npy."),
    ],
    kind: Annotated[
        str, typer.Option(help="Its kind, as of `stoker pack --field`: label, mask, float32.")
    ] = "",
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of images and masks, if paths are not relative to VALUES."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Add a field to a packed dataset, without writing what it has again.

    Example: `stoker add-column packed mask masks.csv`.
    """
    with progress_bar("adding") as bar:
        task = bar.add_task("adding", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        try:
            report = add_to_dataset(dataset, name, values, kind=kind, images=images, progress=show)
        except KeyboardInterrupt:
            bar.stop()
            typer.echo("stoker: interrupted; the dataset is as it was", err=True)
            raise typer.Exit(exit_statuses.INTERRUPTED) from None
    field, rows = report.field, report.manifest.rows
    if as_json:
        summary = {
            "dataset": str(dataset), "field": field.name, "kind": field.kind, "dtype": field.dtype,
            "shape": field.shape, "classes": field.classes, "rows": rows,
            "fingerprint_before": report.before, "fingerprint": report.manifest.fingerprint,
            "written_bytes": report.written_bytes, "remarks": report.remarks,
        }  # fmt: skip
        typer.echo(json.dumps(summary))
        return
    console = Console(soft_wrap=True)
    console.print(
        Text(
            f"added {field.name} ({field.meaning} {field.dtype}) to {number_of(rows, 'sample')} of "
            f"{dataset}: {size_text(report.written_bytes)} written"
        )
    )
    for line in report.remarks:
        console.print(Text(line))
    console.print(Text(f"its fingerprint is now {report.manifest.fingerprint}"))
    console.print(Text("streams that are open go on without it; new ones have it"))
