"""`stoker buckets`: what the buckets of a dataset would be, before any training.

Reads widths and heights, or lengths, alone. Says for every bucket how many samples it has, how they
fit, and what becomes of those that fill no batch; `--json` lists them by id.
"""

import inspect
import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stoker.dataset import open_dataset
from stoker.order.buckets.bucket_fit import Fit
from stoker.protocol.errors import UsageError
from stoker.protocol.length_buckets import LengthBuckets, Request
from stoker.protocol.size_buckets import CUT_WEIGHT, Buckets
from stoker.server.commands.plain_output import output_console, print_table
from stoker.server.commands.stream_flags import StreamFlags, takes_stream
from stoker.server.inspect.bucket_plot import plot
from stoker.server.inspect.bucket_report import Report, make_report, warnings
from stoker.server.inspect.figures import check_plot

IMAGES: Final = {
    "max_area": None, "divisor": 64, "min_side": None, "max_side": None, "max_ratio": None,
    "sizes": None, "upscale": True, "cut_weight": CUT_WEIGHT, "resize": True, "field": "image",
}  # fmt: skip
LENGTHS: Final = {"multiple": None, "bounds": None, "max_length": None, "longer": "error"}
"""Defaults of the flags for images and of the flags for sequences."""
NO_FLAGS: Final = ("buckets", "views", "freeze", "total_epochs", "on_error")
"""Options of a stream that have flags of their own here, or change no bucket."""
NO_PIPELINE: Final = "none"


@takes_stream(*NO_FLAGS, mix=False, global_batch_size=inspect.Parameter.empty)
def buckets(  # noqa: PLR0913 - one parameter a flag
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    *,
    max_area: Annotated[
        int | None, typer.Option(help="Most pixels of an output, such as 1048576.")
    ] = None,
    divisor: Annotated[int, typer.Option(help="Every side is a multiple of it.")] = 64,
    min_side: Annotated[int | None, typer.Option(help="Least side of an output.")] = None,
    max_side: Annotated[int | None, typer.Option(help="Greatest side of an output.")] = None,
    max_ratio: Annotated[
        float | None, typer.Option(help="Greatest ratio of the longer side to the shorter.")
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(help="One of a table of sizes, such as 1152x896; repeatable."),
    ] = None,
    upscale: Annotated[
        bool, typer.Option("--upscale/--no-upscale", help="Or never scale an image up.")
    ] = True,
    cut_weight: Annotated[
        int, typer.Option(help="Weight of cutting off against the area, 2 to 16.")
    ] = CUT_WEIGHT,
    resize: Annotated[
        bool, typer.Option("--resize/--no-resize", help="Or keep every image's own size.")
    ] = True,
    field: Annotated[str, typer.Option(help="The picture whose size counts.")] = "image",
    lengths: Annotated[
        str | None, typer.Option(help="Buckets of sequences: the field whose length counts.")
    ] = None,
    multiple: Annotated[
        int | None, typer.Option(help="Of sequences: lengths are multiples of it.")
    ] = None,
    bound: Annotated[
        list[int] | None, typer.Option(help="Of sequences: a bucket's length; repeatable.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Of sequences: greatest length, with --multiple.")
    ] = None,
    longer: Annotated[
        str, typer.Option(help="For longer sequences: error, truncate or drop.")
    ] = "error",
    leftovers: Annotated[
        str, typer.Option(help="Samples that fill no batch: carry, merge or drop.")
    ] = "carry",
    constant: Annotated[
        str, typer.Option(help="Equal in all batches: rows, pixels or tokens.")
    ] = "rows",
    min_rows: Annotated[
        int, typer.Option(help="With constant pixels or tokens: least positions.")
    ] = 1,
    max_rows: Annotated[
        int | None, typer.Option(help="With constant pixels or tokens: most positions.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, max=64, help="Epochs to account for.")] = 3,
    first_epoch: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help="Write a plot: .png, .svg.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
    stream: StreamFlags,
) -> None:
    """Plan the buckets of a dataset: sizes or lengths, fill, loss, leftovers.

    Examples: `stoker buckets packed --batch-size 64 --max-area 65536`,
    `stoker buckets packed --batch-size 64 --lengths tokens --multiple 8`.
    """
    check_plot(plot_file)
    of_images = {
        "max_area": max_area, "divisor": divisor, "min_side": min_side, "max_side": max_side,
        "max_ratio": max_ratio, "sizes": tuple(map(_size, size)) if size else None,
        "upscale": upscale, "cut_weight": cut_weight, "resize": resize, "field": field,
    }  # fmt: skip
    of_lengths = {
        "multiple": multiple, "bounds": tuple(bound) if bound else None, "max_length": max_length,
        "longer": longer,
    }  # fmt: skip
    of_both = {
        "leftovers": leftovers, "constant": constant, "min_rows": min_rows, "max_rows": max_rows
    }  # fmt: skip
    wanted = _request(lengths, of_images, of_lengths, of_both)
    request = stream.stream(NO_PIPELINE, dataset, buckets=wanted).request
    with open_dataset(dataset) as opened:
        report = make_report(opened, request, range(first_epoch, first_epoch + epochs))
    if plot_file is not None:
        plot(report).savefig(plot_file)
    if as_json:
        typer.echo(json.dumps(report.to_data(), indent=1))
    else:
        _print(report, output_console())


def _request(
    lengths: str | None,
    of_images: dict[str, Any],
    of_lengths: dict[str, Any],
    of_both: dict[str, Any],
) -> Request:
    """Return the request of the flags.

    Raises:
        UsageError: flags of images and of sequences are mixed, or it cannot be.
    """
    if lengths is not None:
        _check_unused(
            of_images, IMAGES, "is for images, and --lengths for sequences: leave out one of them"
        )
        return LengthBuckets(field=lengths, **of_lengths, **of_both)
    _check_unused(of_lengths, LENGTHS, "is for sequences: add --lengths FIELD, or leave it out")
    return Buckets(**of_images, **of_both)


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition("x")
    if not (width.isdecimal() and height.isdecimal()):
        raise UsageError(f"stoker buckets: --size {text}: expected WIDTHxHEIGHT, such as 1152x896")
    return int(width), int(height)


def _check_unused(given: dict[str, Any], unset: dict[str, Any], why: str) -> None:
    for name, value in given.items():
        if value != unset[name]:
            flag = name.replace("_", "-").replace("bounds", "bound").replace("sizes", "size")
            raise UsageError(f"stoker buckets: --{flag} {why}")


def _print(report: Report, console: Console) -> None:
    size, what, last = ("size", "images", "scale")
    if not report.of_images:
        size, what, last = ("length", "sequences", "padding")
    table = Table(size, what, "batch", "batches", "cut off", "at most", last, "merged")
    table.title = f"{len(report.rows)} buckets of {report.samples} {what}"
    for column in table.columns[1:]:
        column.justify = "right"
    for row in report.fullest:
        bucket, fit = row.bucket, row.fit
        table.add_row(
            bucket.name,
            f"{bucket.samples:,}",
            f"{bucket.positions:,}",
            f"{bucket.samples / bucket.positions:.2f}",
            f"{fit.mean_loss:.1%}",
            f"{fit.worst_loss:.1%}",
            f"{fit.mean_scale:.2f}" if isinstance(fit, Fit) else f"{fit.mean_padding:.1%}",
            f"{fit.merged:,}" if fit.merged else "",
        )
    print_table(console, table)
    for line in (*report.lines(), *warnings(report)):
        console.print(Text(line))
