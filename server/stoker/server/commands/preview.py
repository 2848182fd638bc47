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

from stoker.order.select import Remaining
from stoker.protocol.errors import UsageError
from stoker.protocol.replayed_row import Replay
from stoker.protocol.spec import MAX_SEED
from stoker.rng.row import Row
from stoker.server.inspect.contact_sheet import Shown, augmented, picture_output, sheet, stored
from stoker.server.inspect.output_path import check_out
from stoker.server.rows.subject import Subject, freezes, open_subject

MAX_PICTURES = 4096
ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


def preview(  # noqa: PLR0913, PLR0917 - one parameter a flag
    pipeline: Annotated[str, typer.Argument(help="module:attribute of the pipeline.")],
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    out: Annotated[Path, typer.Option(help="Picture to write, such as sheet.png.")],
    ids: Annotated[
        str | None, typer.Option(help="Sample ids, such as 0,7,100; default: eight, spread.")
    ] = None,
    columns: Annotated[int, typer.Option(min=1, max=64, help="Epochs to show of each.")] = 5,
    epoch: Annotated[int, typer.Option(min=0, help="The first epoch to show.")] = 0,
    total_epochs: Annotated[
        int | None, typer.Option(min=1, help="Length of the training, if the pipeline reads it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the stream.")] = 0,
    freeze: Annotated[
        list[str] | None, typer.Option(help="NAME=NUMBER or NAME=epoch; repeatable.")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="Output to show; default: the first that is an image.")
    ] = None,
    bucket: Annotated[
        str | None, typer.Option(help="WIDTHxHEIGHT of the bucket, or its length.")
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option(help="File that lists samples to leave out.")
    ] = None,
    subset: Annotated[
        str | None,
        typer.Option(help="Split, condition, or file of ids: the only samples to visit."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help='Field or file of weights, or JSON of classes such as {"cat": 3}.'),
    ] = None,
    python_path: Annotated[
        list[str] | None, typer.Option(help="Folder to import the pipeline from; repeatable.")
    ] = None,
) -> None:
    """Write a contact sheet: each sample next to its result, with its targets drawn."""
    check_out("--out", out, ENDINGS)
    frozen = freezes(freeze or ())
    with open_subject(
        pipeline, dataset, python_path or (), bucket, exclude, subset, weights
    ) as subject:
        numbers = _numbers(ids, subject.chosen.remaining(), columns)
        replays = [
            [
                subject.replay(_row(seed, number, epoch + turn, total_epochs), frozen)
                for turn in range(columns)
            ]
            for number in numbers
        ]
        page = sheet(_lines(subject, replays, output))
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


def _lines(subject: Subject, replays: list[list[Replay]], output: str | None) -> list[list[Shown]]:
    classes = {f.name: f.classes for f in subject.dataset.schema.fields if f.classes}
    shown, field = picture_output(replays[0][0], output)
    return [
        [stored(line[0], field, classes), *(augmented(replay, shown, classes) for replay in line)]
        for line in replays
    ]


def _numbers(ids: str | None, remaining: Remaining, columns: int) -> list[int]:
    if ids is None:
        count = min(8, remaining.count)
        return [remaining.id(number * remaining.count // count) for number in range(count)]
    words = [word.strip() for word in ids.split(",")]
    if not all(word.isdecimal() for word in words):
        raise UsageError(f"--ids {ids!r}: expected numbers separated by commas")
    if len(words) * columns > MAX_PICTURES:
        raise UsageError(f"--ids: at most {MAX_PICTURES} pictures, got {len(words)} x {columns}")
    return [int(word) for word in words]
