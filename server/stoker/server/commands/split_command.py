"""`stoker split`: give a packed dataset named splits, which `Loader(subset="train")` selects."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from stoker.dataset.packing.splitting import REST, Part, split_by
from stoker.dataset.packing.splitting import split as split_dataset
from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import read_ids
from stoker.protocol.spec import MAX_SEED
from stoker.server.commands.readable_units import number_of


def split(
    dataset: Annotated[Path, typer.Argument(help="Folder of the dataset.")],
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="NAME=PART: a fraction such as 0.9, a count, rest, or a file of ids."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the random order.")] = 0,
    stratify: Annotated[
        str, typer.Option(help="Label whose classes are split in the same proportions.")
    ] = "",
    by_field: Annotated[
        str, typer.Option("--by", help="Label of which every class becomes a split.")
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the splits that the dataset has.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the splits as JSON.")] = False,
) -> None:
    """Split a packed dataset by name, once for all runs: train=0.9 val=0.1.

    Example: `stoker split packed train=0.9 val=rest --stratify label`.
    """
    if by_field and (parts or stratify):
        raise UsageError("split: --by makes all splits; leave NAME=PART and --stratify out")
    if by_field:
        manifest = split_by(dataset, by_field, overwrite=overwrite)
    else:
        named = _parts(parts or [])
        manifest = split_dataset(dataset, named, seed=seed, stratify=stratify, overwrite=overwrite)
    assert manifest.splits
    sizes = {name: made.rows for name, made in manifest.splits.names.items()}
    if as_json:
        typer.echo(json.dumps({"dataset": str(dataset), "rows": manifest.rows, "splits": sizes}))
        return
    console = Console(soft_wrap=True)
    for name, rows in sizes.items():
        console.print(Text(f"{name}: {number_of(rows, 'sample')} of {manifest.rows}"))
    if overwrite:
        console.print(Text("streams that are open keep the old splits; new ones have the new ones"))


def _parts(given: list[str]) -> dict[str, Part]:
    found: dict[str, str] = {}
    for text in given:
        name, sign, part = text.partition("=")
        if not sign or not name or not part:
            raise UsageError(f"split: {text!r}: expected NAME=PART, such as train=0.9")
        if name in found:
            raise UsageError(f"split: {name!r} comes twice")
        found[name] = part
    return {name: _part(part) for name, part in found.items()}


def _part(text: str) -> Part:
    if text == REST:
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return read_ids(text, "split")
