"""`stoker unpack`: a dataset back into files."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from stoker.dataset import open_dataset
from stoker.dataset.format.unpacked_form import SAMPLES
from stoker.dataset.packing.unpack import UnpackReport
from stoker.dataset.packing.unpack import unpack as unpack_dataset
from stoker.server.commands import exit_statuses
from stoker.server.commands.dataset_tables import progress_bar
from stoker.server.commands.readable_units import number_of, size_text


def unpack(
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    folder: Annotated[Path, typer.Argument(help="Folder for the files, empty or missing.")],
    numbered: Annotated[
        bool, typer.Option("--numbered", help="Name files by sample id, not by their sources.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Write the samples of a dataset as files, which `stoker pack FOLDER DEST` packs again.

    Example: `stoker unpack packed files`.
    """
    with open_dataset(dataset) as opened, progress_bar("unpacking") as bar:
        task = bar.add_task("unpacking", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        try:
            report = unpack_dataset(opened, folder, numbered=numbered, progress=show)
        except KeyboardInterrupt:
            bar.stop()
            typer.echo("stoker: interrupted; run the same command again to continue", err=True)
            raise typer.Exit(exit_statuses.INTERRUPTED) from None
        fingerprint = opened.fingerprint
    if as_json:
        summary = {"dataset": dataset, "folder": str(folder), "fingerprint": fingerprint}
        typer.echo(json.dumps({**summary, **asdict(report)}))
    else:
        _print(dataset, folder, report)


def _print(dataset: str, folder: Path, report: UnpackReport) -> None:
    console = Console(soft_wrap=True)
    console.print(
        Text(
            f"unpacked {number_of(report.rows, 'sample')} of {dataset} into {folder}: "
            f"{number_of(report.files, 'file')}, {size_text(report.size_bytes)}, and {SAMPLES}"
        )
    )
    if report.kept_files:
        console.print(Text(f"{report.kept_files} files were kept from an earlier run"))
    for name, forms in report.forms.items():
        console.print(Text(f"{name}: {', '.join(forms)}"))
    for line in report.not_written:
        console.print(Text(f"not written: {line}"))
