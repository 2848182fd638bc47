"""`stoker buckets`: what aspect-ratio buckets of a dataset would be, before any training.

Reads widths and heights alone. Says for every size how many images it has, how they fit, and what
becomes of those that fill no batch; `--json` lists them by id.
"""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stoker.dataset import open_dataset
from stoker.protocol.buckets import Buckets
from stoker.protocol.spec import MAX_SEED
from stoker.server.bucket_plot import plot
from stoker.server.bucket_report import Report, make_report, warnings


def buckets(  # noqa: PLR0913, PLR0917 - one parameter a flag
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    batch_size: Annotated[int, typer.Option(help="Positions in a global batch.")],
    max_area: Annotated[
        int | None, typer.Option(help="Most pixels of an output, such as 1048576.")
    ] = None,
    divisor: Annotated[int, typer.Option(help="Every side is a multiple of it.")] = 64,
    min_side: Annotated[int | None, typer.Option(help="Least side of an output.")] = None,
    max_side: Annotated[int | None, typer.Option(help="Greatest side of an output.")] = None,
    resize: Annotated[
        bool, typer.Option("--resize/--no-resize", help="Or keep every image's own size.")
    ] = True,
    field: Annotated[str, typer.Option(help="The picture whose size counts.")] = "image",
    leftovers: Annotated[
        str, typer.Option(help="carry, merge or drop what fills no batch.")
    ] = "carry",
    constant: Annotated[str, typer.Option(help="What batches have in common: rows, pixels.")] = (
        "rows"
    ),
    min_rows: Annotated[int, typer.Option(help="With constant pixels: least positions.")] = 1,
    max_rows: Annotated[
        int | None, typer.Option(help="With constant pixels: most positions.")
    ] = None,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="As the Loader.")] = True,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the stream.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, max=64, help="Epochs to account for.")] = 3,
    plot_file: Annotated[Path | None, typer.Option("--plot", help="Write a plot (PNG).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """Plan the buckets of a dataset: sizes, fill, loss, leftovers."""
    request = Buckets(
        max_area=max_area,
        divisor=divisor,
        min_side=min_side,
        max_side=max_side,
        resize=resize,
        field=field,
        leftovers=leftovers,  # type: ignore[arg-type]  # Buckets checks it
        constant=constant,  # type: ignore[arg-type]
        min_rows=min_rows,
        max_rows=max_rows,
    )
    with open_dataset(dataset) as opened:
        report = make_report(opened, request, batch_size, seed, shuffle=shuffle, epochs=epochs)
    if plot_file is not None:
        plot(report).save(plot_file)
    if as_json:
        typer.echo(json.dumps(report.to_data(), indent=1))
    else:
        _print(report, Console(soft_wrap=True))


def _print(report: Report, console: Console) -> None:
    table = Table("size", "images", "batch", "batches", "cut off", "at most", "scale", "merged")
    table.title = f"{len(report.rows)} buckets of {report.samples} images"
    for column in table.columns[1:]:
        column.justify = "right"
    for row in report.rows:
        table.add_row(
            f"{row.width}x{row.height}",
            f"{row.samples:,}",
            f"{row.positions:,}",
            f"{row.samples / row.positions:.2f}",
            f"{row.fit.mean_loss:.1%}",
            f"{row.fit.worst_loss:.1%}",
            f"{row.fit.mean_scale:.2f}",
            f"{row.fit.merged:,}" if row.fit.merged else "",
        )
    console.print(table)
    for line in (*report.lines(), *warnings(report)):
        console.print(Text(line))
