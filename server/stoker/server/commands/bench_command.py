"""`stoker bench`: what a dataset and a pipeline can do on this host, and what limits them.

Measures the stages of a row on one core, then the rate through a private daemon and a client for
one to all processors, and through torch's DataLoader with the same compiled pipeline, if torch is
there. Other work on the host disturbs it: run it on a quiet one. With buckets the stages are those
of the fullest one, and it is not compared with a DataLoader.
"""

import dataclasses
import importlib.util
import json
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stoker.jit.arithmetic import COMPILED
from stoker.protocol.errors import UsageError
from stoker.server.commands.finite_flags import Seconds, above_0
from stoker.server.commands.plain_output import output_console, print_table
from stoker.server.commands.shown_stream import open_stream
from stoker.server.commands.stream_flags import StreamFlags, takes_stream
from stoker.server.commands.subject_flags import PythonPathFlag
from stoker.server.inspect.bench.caveats import caveats
from stoker.server.inspect.bench.rate_plot import plot
from stoker.server.inspect.bench.rates import Rate, through_daemon, through_torch
from stoker.server.inspect.bench.row_stages import Stages, measure_stages
from stoker.server.inspect.bench.verdict import Verdict, deliver_s, judge
from stoker.server.inspect.figures import check_plot
from stoker.server.rows.clip_samples import refuse_clips
from stoker.server.rows.field_states import worker_plan
from stoker.server.settings.cgroup import cores


@takes_stream("drop_last", mix=False, global_batch_size=64)
def bench(  # noqa: PLR0913 - one parameter a flag
    pipeline: Annotated[str, typer.Argument(help="module:attribute of the pipeline.")],
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    *,
    workers: Annotated[
        list[int] | None, typer.Option(help="Worker processes to try; repeatable.")
    ] = None,
    seconds: Seconds = 3.0,
    target: Annotated[
        float | None,
        typer.Option(callback=above_0, help="Rows per second that the training reads."),
    ] = None,
    torch: Annotated[
        bool, typer.Option("--torch/--no-torch", help="Compare with torch's DataLoader.")
    ] = True,
    plot_file: Annotated[
        Path | None,
        typer.Option("--plot", help="Write a plot of rates over workers: .png, .svg."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
    python_path: PythonPathFlag = None,
    stream: StreamFlags,
) -> None:
    """Measure a pipeline over a dataset: stages of a row, rates over workers, the bottleneck.

    Examples: `stoker bench pipelines:train packed`,
    `stoker bench pipelines:train packed --workers 2 --workers 4 --target 1000`.
    """
    if any(count < 1 for count in workers or ()):
        raise UsageError(f"stoker bench: --workers {min(workers or ())}: expected a number from 1")
    check_plot(plot_file)
    named = stream.stream(pipeline, dataset)
    counts = sorted(set(workers)) if workers else _counts(cores()[0])
    progress = Console(stderr=True, quiet=as_json)
    progress.print(f"stages of a row, {seconds:g} s ...")
    with open_stream(named, python_path or ()) as shown:
        size = shown.fullest()
    plain = stream.stream(pipeline, dataset, buckets=None)
    with open_stream(plain, python_path or (), size) as shown, NamedTemporaryFile("w") as left_out:
        (graph,), (opened,), (chosen,) = shown.graphs, shown.datasets, shown.selections
        refuse_clips(graph, "stoker bench")
        plan = worker_plan(graph, opened, size)
        stages = measure_stages(shown.spec, shown.order(COMPILED), opened, plan, seconds)
        left_out.writelines(f"{number}\n" for number in chosen.excluded.ids.tolist())
        left_out.flush()
        rates, beside = [], []
        torch = torch and size is None and chosen.weighting is None and _has_torch()
        for count in counts:
            progress.print(f"{count} workers ...")
            how: dict[str, float | str] = {"workers": count, "seconds": seconds}
            options = {**how, "stream": json.dumps(stream.written)}
            rates.append(through_daemon(dataset, pipeline, python_path or (), options))
            if torch:
                batch = named.request.batch.positions
                options = {**how, "batch-size": batch, "exclude": left_out.name}
                beside.append(through_torch(dataset, pipeline, python_path or (), options))
    against = caveats(stages, rates, cores()[0], os.cpu_count())
    verdict = None if against else judge(stages, rates, target, cores()[0])
    if plot_file is not None:
        plot(rates, beside, stages.rows_per_s).savefig(plot_file)
    if as_json:
        typer.echo(json.dumps(_data(stages, rates, beside, verdict, against)))
    else:
        _print(stages, rates, beside)
        _print_verdict(verdict, against)


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def _counts(most: int) -> list[int]:
    """Return 1, 2, 4, ... and all processors."""
    return sorted({1 << power for power in range(most.bit_length()) if 1 << power <= most} | {most})


def _data(
    stages: Stages,
    rates: list[Rate],
    beside: list[Rate],
    verdict: Verdict | None,
    against: list[str],
) -> dict[str, Any]:
    return {
        "stages": {**dataclasses.asdict(stages), "deliver_s": deliver_s(stages, rates)},
        "stoker": [dataclasses.asdict(rate) for rate in rates],
        "torch": [dataclasses.asdict(rate) for rate in beside],
        "verdict": None if verdict is None else dataclasses.asdict(verdict),
        "caveats": against,
    }


def _print(stages: Stages, rates: list[Rate], beside: list[Rate]) -> None:
    console = output_console()
    spent = {**stages.seconds, "deliver": deliver_s(stages, rates)}
    total = sum(spent.values()) or 1.0
    table = Table("stage", "us per row", "part", title="one row, one worker")
    for stage, part_s in spent.items():
        table.add_row(stage, f"{part_s * 1e6:,.1f}", f"{part_s / total:.0%}")
    print_table(console, table)
    how = "whole chunks in one compiled call" if stages.in_chunks else "row by row"
    part = f"; decoded in part: {', '.join(stages.decoded_in_part)}" * bool(stages.decoded_in_part)
    console.print(f"{stages.rows_per_s:,.0f} rows/s by one worker's code, {how}{part}")
    table = Table(
        "workers", "rows/s", "of one worker's code", "first batch", "waited", "DataLoader"
    )
    for place, rate in enumerate(rates):
        other = beside[place].rows_per_s if place < len(beside) else None
        table.add_row(
            str(rate.workers),
            f"{rate.rows_per_s:,.0f}",
            f"{rate.rows_per_s / (rate.workers * stages.rows_per_s):.2f}",
            f"{rate.first_batch_s:.2f} s",
            f"{rate.waited:.0%}",
            "" if other is None else f"{other:,.0f} ({rate.rows_per_s / other:.2f}x)",
        )
    print_table(console, table)


def _print_verdict(verdict: Verdict | None, against: list[str]) -> None:
    console = output_console()
    if verdict is None:
        console.print("No verdict: the measurements do not support one.")
        for reason in against:
            console.print(f"- {reason}")
        console.print("Run it again while the host has nothing else to do, or with more --seconds.")
        return
    console.print(
        f"bottleneck: {verdict.bottleneck}, {verdict.share:.0%} of a row. It is {verdict.advice}."
    )
    console.print(_saturating(verdict))
    if verdict.for_target is not None:
        console.print(f"Workers that would reach the target: {verdict.for_target}.")


def _saturating(verdict: Verdict) -> str:
    about = f"about {verdict.estimated}, an estimate from the CPU seconds of a row"
    if verdict.saturating is None:
        return f"Workers that would saturate this host: {about}; --workers tries more of them."
    return f"Workers that saturate this host: {verdict.saturating}, as measured; {about}."
