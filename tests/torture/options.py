"""Arguments of a Loader that a storm draws: how often, and which of them exclude each other.

Two tables: what decides the order, which the members of a fork have in common, and what decides
the rows. Mixtures take less than others.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, NamedTuple

SAMPLES = 37
CLASSES = {"day": 1, "night": 2.5}
SPLIT = {"train": 0.8, "val": "rest"}
Draw = Callable[[random.Random, Mapping[str, Any], tuple[str, ...]], object]


class Option(NamedTuple):
    """One argument.

    Attributes:
        name: of the argument.
        often: how often it is given, from 0 to 1.
        draw: returns its value, given what was drawn so far and the streams of the pipeline.
        unless: arguments that exclude it; "in order" is `shuffle=False`.
    """

    name: str
    often: float
    draw: Draw
    unless: Set[str] = frozenset()


def _ids(rng: random.Random, data: Mapping[str, Any], _: object) -> list[int]:
    ids = rng.sample(range(SAMPLES), rng.randrange(27, SAMPLES))
    return ids if data["shuffle"] else sorted(ids)  # in order they must ascend


def _weights(rng: random.Random, data: Mapping[str, Any], _: object) -> object:
    """Numbers, or a field or classes of the dataset."""
    numbers = [rng.choice((0.5, 1.0, 3.0)) for _ in range(SAMPLES)]
    return rng.choice((CLASSES if data["dataset"] == "photos" else "weight", numbers))


def _freeze(rng: random.Random, _: object, streams: tuple[str, ...]) -> dict[str, object]:
    names = rng.sample(streams, min(len(streams), rng.randrange(1, 3)))
    return {name: rng.choice(("epoch", rng.randrange(2**32))) for name in names}


ORDER = (
    Option("shuffle_block_size", 0.2, lambda rng, *_: rng.choice((4, 9)),
           {"in order", "buckets", "mix"}),
    Option("shuffle_seed", 0.2, lambda rng, *_: rng.randrange(2**64), {"in order", "shuffle_seed"}),
    Option("exclude", 0.2, lambda rng, *_: rng.sample(range(SAMPLES), 5), {"mix"}),
    Option("subset", 0.15, _ids, {"mix", "exclude"}),
    Option("subset", 0.15, lambda *_: "train", {"mix", "subset"}),
    Option("weights", 0.2, _weights, {"mix", "buckets"}),
)  # fmt: skip
ROWS = (
    Option("freeze", 0.3, _freeze),
    Option("params", 0.3, lambda *_: True, {"mix"}),
)


def add(
    options: Iterable[Option],
    data: dict[str, Any],
    rng: random.Random,
    streams: tuple[str, ...] = (),
) -> None:
    """Draw options into arguments."""
    for option in options:
        given = {name for name, value in data.items() if value}
        if not data["shuffle"]:
            given.add("in order")
        if rng.random() < option.often and not given & option.unless:
            value = option.draw(rng, data, streams)
            if value:
                data[option.name] = value
