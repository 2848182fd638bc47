"""Class numbers of datasets that belong together, such as a training and a validation set.

Runs in the packing process. Only manifests are read. A dataset that cannot be read is not compared.
"""

from pathlib import Path
from typing import Final

from stoker.dataset.format.fields import Schema
from stoker.dataset.format.manifest import NAME, read_manifest
from stoker.protocol.errors import StokerError, UsageError

MOST_SIBLINGS: Final = 100


def classes_of(folder: Path) -> tuple[str, ...]:
    """Return the classes of a packed dataset's label, in the order of their numbers.

    Raises:
        UsageError: it has no label, or its label has no classes.
        DatasetError: it is not a dataset, or is damaged.
    """
    found = _labels(read_manifest(folder).schema)
    if "label" in found:
        return found["label"]
    if len(found) != 1:
        raise UsageError(
            f"--classes-of {folder}: expected a dataset with one label that has classes, got "
            f"{', '.join(found) or 'none'}; pass a list with --classes FILE"
        )
    return next(iter(found.values()))


def different_numbers(folder: Path, schema: Schema) -> list[str]:
    """Return a warning for each dataset next to a folder that numbers the same classes differently.

    Args:
        folder: the folder of the new dataset.
        schema: its schema.
    """
    own = _labels(schema)
    if not own:
        return []
    here = folder.resolve()
    places = sorted(path.parent for path in here.parent.glob(f"*/{NAME}"))
    found = []
    for place in [place for place in places if place != here][:MOST_SIBLINGS]:
        try:
            others = _labels(read_manifest(place).schema)
        except StokerError:
            continue
        for name in own.keys() & others.keys():
            moved = _first_moved(own[name], others[name])
            if moved is not None:
                other = folder.parent / place.name
                found.append(
                    f"{other} numbers the classes of {name!r} differently: {moved!r} is "
                    f"{own[name].index(moved)} here and {others[name].index(moved)} there; if the "
                    f"two belong together, pack again with --overwrite --classes-of {other}"
                )
    return found


def _labels(schema: Schema) -> dict[str, tuple[str, ...]]:
    return {one.name: one.classes for one in schema.fields if one.kind == "label" and one.classes}


def _first_moved(own: tuple[str, ...], other: tuple[str, ...]) -> str | None:
    """Return the first class of both whose numbers differ."""
    numbers = {name: number for number, name in enumerate(other)}
    return next(
        (name for number, name in enumerate(own) if numbers.get(name, number) != number), None
    )
