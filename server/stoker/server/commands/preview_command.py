"""`stoker preview`: a contact sheet of samples and the results of a pipeline on them.

Also says how often each step was applied in the pictures shown, so a branch that is never taken or
a probability that is never hit is seen at once.
"""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from stoker.ops.bases.batch_op import GROUP
from stoker.protocol.errors import UsageError
from stoker.protocol.replayed_row import Replay
from stoker.rng.row import Row
from stoker.server.commands.shown_stream import ShownStream, open_stream
from stoker.server.commands.stream_flags import StreamFlags, takes_stream
from stoker.server.commands.subject_flags import BucketFlag, PythonPathFlag
from stoker.server.inspect.contact_sheet import Shown, augmented, picture_output, sheet, stored
from stoker.server.inspect.output_path import check_out

MAX_PICTURES = 4096
ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


@takes_stream(global_batch_size=GROUP, drop_last=False)
def preview(  # noqa: PLR0913 - one parameter a flag
    pipeline: Annotated[str, typer.Argument(help="module:attribute of the pipeline.")],
    dataset: Annotated[
        str | None, typer.Argument(help="Folder of the dataset; none for a mixture.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Picture to write, such as sheet.png.")],
    ids: Annotated[
        str | None, typer.Option(help="Sample ids, such as 0,7,100; default: eight, spread.")
    ] = None,
    columns: Annotated[int, typer.Option(min=1, max=64, help="Epochs to show of each.")] = 5,
    epoch: Annotated[int, typer.Option(min=0, help="The first epoch to show.")] = 0,
    output: Annotated[
        str | None, typer.Option(help="Output to show; default: the first that is an image.")
    ] = None,
    bucket: BucketFlag = None,
    python_path: PythonPathFlag = None,
    stream: StreamFlags,
) -> None:
    """Write a contact sheet: each sample next to its result, with its targets drawn.

    Example: `stoker preview pipelines:train packed --out sheet.png --ids 0,7`.
    """
    check_out("--out", out, ENDINGS)
    listed = _numbers(ids, columns)
    named = stream.stream(pipeline, dataset)
    draws = named.request.draws
    with open_stream(named, python_path or (), bucket) as shown:
        numbers = listed or _spread(shown)
        replays = [
            [
                shown.replay(_row(draws.seed, number, epoch + turn, draws.total_epochs))
                for turn in range(columns)
            ]
            for number in numbers
        ]
        page = sheet(_lines(shown, replays, output))
    try:
        page.save(out)
    except (OSError, ValueError) as error:  # such as a side that the format cannot have
        raise UsageError(
            f"--out {out}: an image of {page.width} x {page.height} cannot be written ({error});"
            " choose another folder or format, or fewer samples"
        ) from None
    console = Console(soft_wrap=True)
    console.print(Text(f"{out}: {len(numbers)} samples, {columns} epochs from {epoch}"))
    for share in shares([replay for line in replays for replay in line]):
        console.print(Text(share))


def _row(seed: int, number: int, epoch: int, total_epochs: int | None) -> Row:
    """Return a row of the epoch's first step."""
    progress = None if total_epochs is None else min(epoch / total_epochs, 1.0)
    return Row(seed, number, epoch, step=0, progress=progress)


def shares(replays: list[Replay]) -> list[str]:
    """Say of each step in how many of the replays it was applied."""
    applied = Counter(
        number for replay in replays for number, step in enumerate(replay.steps) if step.applied
    )
    return [
        f"  {step.op}: applied in {applied[number]} of {len(replays)}"
        for number, step in enumerate(replays[0].steps)
    ]


def _lines(
    shown: ShownStream, replays: list[list[Replay]], output: str | None
) -> list[list[Shown]]:
    classes = {f.name: f.classes for d in shown.datasets for f in d.schema.fields if f.classes}
    name, field = picture_output(replays[0][0], output)
    return [
        [stored(line[0], field, classes), *(augmented(replay, name, classes) for replay in line)]
        for line in replays
    ]


def _numbers(ids: str | None, columns: int) -> list[int]:
    """Return the ids that the user names; empty if there are none."""
    if ids is None:
        return []
    words = [word.strip() for word in ids.split(",")]
    if not all(word.isdecimal() for word in words):
        raise UsageError(f"--ids {ids!r}: expected numbers separated by commas")
    if len(words) * columns > MAX_PICTURES:
        raise UsageError(f"--ids: at most {MAX_PICTURES} pictures, got {len(words)} x {columns}")
    return [int(word) for word in words]


def _spread(shown: ShownStream) -> list[int]:
    """Return ids of eight samples, spread over those that the stream visits."""
    count = sum(one.count for one in shown.selections)
    found, before = [], 0
    places = [number * count // min(8, count) for number in range(min(8, count))]
    for selection, first in zip(shown.selections, shown.firsts, strict=False):
        remaining = selection.remaining(first)
        found += [
            remaining.id(place - before)
            for place in places
            if before <= place < before + selection.count
        ]
        before += selection.count
    return found
