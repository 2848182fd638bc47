"""`stoker compare`: Stoker and any other loader on this host, measured in turns, in one table.

It is the client's (`stoker.client.compare`). Other work on the host disturbs it: run it on a quiet
one.
"""

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from stoker.protocol.errors import UsageError
from stoker.server.commands.finite_flags import Seconds
from stoker.server.commands.plain_output import output_console, print_table
from stoker.server.commands.shown_stream import open_stream
from stoker.server.commands.stream_flags import StreamFlags, takes_stream
from stoker.server.settings.cgroup import cores

if TYPE_CHECKING:
    from stoker.client.compare import Comparison


@takes_stream("drop_last", mix=False, global_batch_size=64)
def compare(  # noqa: PLR0913 - one parameter a flag
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset, for Stoker.")],
    *,
    pipeline: Annotated[str, typer.Option(help="module:attribute of the pipeline, for Stoker.")],
    against: Annotated[
        str,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Function that makes the other loader; it may take workers, by name.",
        ),
    ],
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes of each; by default one a core.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each loader.")] = 3,
    seconds: Seconds = 3.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
    python_path: Annotated[
        list[str] | None, typer.Option(help="Folder to import modules from; repeatable.")
    ] = None,
    stream: StreamFlags,
) -> None:
    """Compare Stoker with any other loader: rate, CPU, first batch and memory, in turns.

    Example: `stoker compare packed --pipeline pipelines:train --against my_data:make_loader`.
    """
    from stoker.client.compare import compare as run  # noqa: PLC0415 - needs zmq

    if not all(against.partition(":")):
        raise UsageError(
            f"--against {against!r}: expected module:function, such as my_data:make_loader"
        )
    with open_stream(stream.stream(pipeline, dataset), python_path or ()):
        pass  # a wrong dataset, pipeline or option ends the command before anything is measured
    progress = Console(stderr=True, quiet=as_json)
    found = run(
        dataset, pipeline, against, workers=workers or cores()[0], stream=stream.written,
        rounds=rounds, seconds=seconds, python_path=python_path or (),
        progress=lambda text: progress.print(f"{text} ..."),
    )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found)))
    else:
        _print(found, against)


def _print(found: "Comparison", against: str) -> None:
    console = output_console()
    table = Table("", against, "Stoker", "Stoker / other", title=f"median of {found.rounds} rounds")
    theirs, ours = found.theirs, found.stoker
    rows = (
        ("images/s", theirs.rows_per_s, ours.rows_per_s, "{:,.0f}"),
        ("CPU-s per 1,000 images", theirs.cpu_s_per_1000, ours.cpu_s_per_1000, "{:.2f}"),
        ("first batch, s", theirs.first_batch_s, ours.first_batch_s, "{:.2f}"),
        ("peak memory, MiB", theirs.memory_bytes / 2**20, ours.memory_bytes / 2**20, "{:,.0f}"),
    )
    for name, other, own, form in rows:
        ratio = f"{own / other:.2f}" if other else ""
        table.add_row(name, form.format(other), form.format(own), ratio)
    print_table(console, table)
    for note in found.notes:
        console.print(f"- {note}")
