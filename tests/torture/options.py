"""Options of a stream that a storm draws: how often, and how.

There is a line for each declared option (`STREAM_OPTIONS`), but for those that come with a stream's
batches and pipeline (`OTHERS`). Nothing is said here about what cannot be combined: the product's
table refuses it.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from reader import loader_options

from stoker.protocol.errors import UsageError
from stoker.protocol.request.option_refusals import Asked, check_combination
from stoker.protocol.request.stream_arguments import stream_request
from stoker.protocol.request.stream_options import STREAM_OPTIONS
from stoker.protocol.request.stream_request import DeliveryRequest

SAMPLES: Final = 37
CLIPS: Final = 6
SPLIT = {"train": 0.8, "val": "rest"}
WITH_SPLITS = ("photos", "boxed", "spoiled")
CLASSES = {"photos": {"day": 1, "night": 2.5}, "clips": {"run": 1, "walk": 3}}
FIELDS = ("boxed", "spoiled")
"""Datasets with a field of weights."""
CONDITIONS = {
    "photos": ("image.width >= 80 and id > 2", "split == 'train' and label == 0 or id < 20"),
    "boxed": ("weight > 0.1", "not (label == 1 and split == 'val') and id != 9"),
    "spoiled": ("weight > 0.1 or id in (1, 2)",),
    "tars": ("id >= 3",),
}
WRITTEN = {"Shuffle.seed": "shuffle_seed", "Shuffle.block_size": "shuffle_block_size"}
"""Declared name -> that in the arguments of a storm."""
OTHERS = {
    "batch_size", "global_batch_size", "seed", "shuffle", "drop_last", "views", "total_epochs",
    "mix", "buckets", "on_error",
}  # fmt: skip

Draw = Callable[[random.Random, Mapping[str, Any], str, tuple[str, ...]], object]


class Option(NamedTuple):
    """An option.

    Attributes:
        often: how often it is given, from 0 to 1.
        draw: returns its value, given what was drawn so far, the dataset (empty for all of a
            mixture) and the streams of the pipelines; None: it is left out.
    """

    often: float
    draw: Draw


def count_of(dataset: str) -> int:
    """Return the number of samples of a dataset."""
    return CLIPS if dataset in ("clips", "smaller") else SAMPLES


def _exclude(rng: random.Random, _: object, dataset: str, __: object) -> list[int]:
    count = count_of(dataset)
    return rng.sample(range(count), max(count // 7, 1))


def _subset(rng: random.Random, data: Mapping[str, Any], dataset: str, _: object) -> object:
    kind = rng.choice(("ids", "split", "condition"))
    if kind == "split" and dataset in WITH_SPLITS:
        return "train"
    if kind == "condition" and dataset in CONDITIONS:
        return rng.choice(CONDITIONS[dataset])
    count = count_of(dataset)
    ids = rng.sample(range(count), rng.randrange(count * 3 // 4, count))
    return ids if data["shuffle"] else sorted(ids)  # in order they must ascend


def _weights(rng: random.Random, _: object, dataset: str, __: object) -> object:
    """Numbers, or a field or classes of the dataset."""
    numbers = [rng.choice((0.5, 1.0, 3.0)) for _ in range(count_of(dataset))]
    field = "weight" if dataset in FIELDS else CLASSES.get(dataset, numbers)
    return rng.choice((field, numbers))


def _freeze(
    rng: random.Random, _: object, __: str, streams: tuple[str, ...]
) -> dict[str, object] | None:
    names = rng.sample(streams, min(len(streams), rng.randrange(1, 3)))
    return {name: rng.choice(("epoch", rng.randrange(2**32))) for name in names}


ORDER = {
    "Shuffle.block_size": Option(0.2, lambda rng, *_: rng.choice((4, 9))),
    "Shuffle.seed": Option(0.2, lambda rng, *_: rng.randrange(2**64)),
    "exclude": Option(0.2, _exclude),
    "subset": Option(0.25, _subset),
    "weights": Option(0.2, _weights),
}
"""What decides the order; the members of a fork have it in common."""
ROWS = {
    "freeze": Option(0.3, _freeze),
    "params": Option(0.3, lambda *_: True),
}
"""What decides the rows."""


def add(
    options: Mapping[str, Option],
    data: dict[str, Any],
    rng: random.Random,
    streams: tuple[str, ...] = (),
) -> None:
    """Draw options into arguments, but none that the others exclude."""
    for name, option in options.items():
        written = WRITTEN.get(name, name)
        if rng.random() >= option.often or written in data:
            continue
        per_dataset = getattr(STREAM_OPTIONS[name].kind, "per_dataset", False)
        if "mix" in data and per_dataset:
            some = [dataset for dataset in data["mix"] if rng.random() < 0.7]
            value: object = {one: option.draw(rng, data, one, streams) for one in some}
        else:
            value = option.draw(rng, data, data.get("dataset", ""), streams)
        if value and not is_refused({**data, written: value}):
            data[written] = value


def is_refused(data: Mapping[str, Any]) -> bool:
    """Return whether options of a stream exclude each other."""
    declared = {written: name for name, written in WRITTEN.items()}
    given = {declared.get(name, name): value for name, value in loader_options(data).items()}
    given["drop_last"] = data["last"] == "drop"
    options = {name: value for name, value in given.items() if name in STREAM_OPTIONS}
    stream = stream_request(data.get("dataset"), "any", options)
    try:
        check_combination(Asked(stream, DeliveryRequest(prefetch=1, leases=1), last=data["last"]))
    except UsageError:
        return True
    return False
