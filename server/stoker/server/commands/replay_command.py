"""`stoker replay`: what a pipeline did to one sample, step by step.

The datasets and the pipelines suffice: nothing was recorded, and no daemon is asked. The outputs
are the bytes that a batch of that row holds; their hashes are printed, and `--out` writes them and
every intermediate value.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from stoker.ops.bases.batch_op import GROUP
from stoker.ops.contract.units import unit_of
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.replayed_row import Replay, ReplayValue
from stoker.rng.row import Row
from stoker.server.commands.shown_stream import open_stream
from stoker.server.commands.stream_flags import StreamFlags, takes_stream
from stoker.server.commands.subject_flags import BucketFlag, PythonPathFlag
from stoker.server.inspect.output_path import check_out_folder
from stoker.server.inspect.value_files import save
from stoker.server.rows.joined_pipelines import own_freeze


@takes_stream(global_batch_size=GROUP, drop_last=False)
def replay(  # noqa: PLR0913 - one parameter a flag
    pipeline: Annotated[str, typer.Argument(help="module:attribute of the pipeline.")],
    dataset: Annotated[
        str | None, typer.Argument(help="Folder of the dataset; none for a mixture.")
    ] = None,
    *,
    id: Annotated[int, typer.Option("--id", min=0, help="Sample id.")],  # noqa: A002
    epoch: Annotated[int, typer.Option(min=0, help="The epoch, from 0.")],
    visit: Annotated[
        int, typer.Option(min=0, max=2**48, help="Number of earlier visits to the id in the epoch.")
    ] = 0,
    view: Annotated[int, typer.Option(min=0, max=2**16 - 1, help="View of the position.")] = 0,
    step: Annotated[
        int | None, typer.Option(min=0, help="Step in the epoch, if the pipeline reads it.")
    ] = None,
    progress: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Part of the training that is over, if it reads that."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the value after every step, made if missing.")
    ] = None,
    params_only: Annotated[
        bool, typer.Option("--params-only", help="Decide without decoding or computing a pixel.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    bucket: BucketFlag = None,
    python_path: PythonPathFlag = None,
    stream: StreamFlags,
) -> None:
    """Show what a pipeline did to one sample: every step, its parameters and values.

    Example: `stoker replay pipelines:train packed --id 7 --epoch 3 --out steps`.
    """
    named = stream.stream(pipeline, dataset)
    if out is not None:
        check_out_folder("--out", out)
    with open_stream(named, python_path or (), bucket) as shown:
        row = Row(named.request.draws.seed, id, epoch, visit, view, step, progress)
        if named.request.draws.total_epochs is not None and step is None and progress is None:
            row = shown.placed(row)
        if params_only:
            subject = shown.subject_of(row)
            decided = subject.decisions(row, own_freeze(shown.spec.freeze, subject.plan))
            if as_json:
                typer.echo(json.dumps(decided))
            else:
                _print_decisions(decided, subject.plan)
            return
        found = shown.replay(row)
        if out is not None:
            write(found, out)
        if as_json:
            typer.echo(json.dumps(found.to_data()))
        else:
            _print(found, shown.source(found.id))


def write(found: Replay, folder: Path) -> None:
    """Write a replay as files: `replay.json`, and every value in the order of the steps."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "replay.json").write_text(json.dumps(found.to_data(), indent=1))
    groups = [("field", found.fields)]
    groups += [(step.op.replace("/", "_"), step.values) for step in found.steps]
    groups += [("output", found.outputs)]
    for number, (what, values) in enumerate(groups):
        for value in values:
            save(value, folder / f"{number:03}-{what}-{value.name or value.number}")


def _print(found: Replay, source: str | None) -> None:
    _say(
        f"sample {found.id}{f' ({source})' if source else ''}, epoch {found.epoch}, visit "
        f"{found.visit}, view {found.view}, seed {found.seed}"
    )
    _say(f"pipeline {found.pipeline_id}")
    damaged = (
        f"{value.name} is damaged, and black, where this row reads nothing: {value.damage}"
        for value in found.fields
        if value.damage
    )
    _step(0, "fields", _shapes(found.fields), *damaged)
    for number, step in enumerate(found.steps, 1):
        _step(
            number,
            step.op,
            "" if step.applied else f"not applied: {step.why}",
            _drawn(step.stream, step.parameters, step.units),
            _shapes(step.values),
            f"at {step.file}:{step.line}" if step.file else "",
        )
    outputs = [
        f"{data['name']}: {data['kind']} {data['dtype']} {tuple(data['shape'])}, BLAKE2b "
        f"{data['blake2b']}"
        for data in found.to_data()["outputs"]
    ]
    _step(len(found.steps) + 1, "outputs", *outputs)


def _print_decisions(decided: list[dict[str, Any]], plan: Plan) -> None:
    ops = {(decision.op.name, str(decision.site)): decision.op for decision in plan.decisions}
    for number, entry in enumerate(decided, 1):
        op, record = ops[entry["op"], entry["site"]], entry["record"]
        units = {name: unit_of(op, name) for name in record}
        _step(number, entry["op"], _drawn(entry["stream"], record, units), f"at {entry['site']}")


def _step(number: int, title: str, *lines: str) -> None:
    _say(f"{number:3} {title}", "bold")
    for line in filter(None, lines):
        _say(f"    {line}")


def _say(text: str, style: str = "") -> None:
    Console(soft_wrap=True).print(Text(text, style))


def _drawn(stream: str | None, record: dict[str, Any], units: dict[str, str]) -> str:
    words = [f"{name} {_number(v)} {units.get(name, '')}".rstrip() for name, v in record.items()]
    return f"stream {stream}: {', '.join(words)}" if stream and words else ", ".join(words)


def _number(value: Any) -> str:
    if isinstance(value, list):
        return f"({', '.join(map(_number, value))})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _shapes(values: Iterable[ReplayValue]) -> str:
    words = (f"{value.name} {value.array.dtype} {value.array.shape}" for value in values)
    return "; ".join(words).strip()
