"""The streams of a storm: what a seed draws, and the digests that the law demands.

A stream is a pipeline of the Law's table, a random one that the client sends as data, one with
buckets of sizes or of lengths, or a mixture of two datasets.
"""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import law_pipelines
from random_graphs import Writer
from reader import loader_options

from stoker.pipeline.graph.graph import Graph
from stoker.protocol.digest import batch_digest
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.reference import reference_mix

EPOCHS = 3
SAMPLES = 37
USUAL = 8
"""Random pipelines whose kernels other tests have compiled."""
SIZES = (
    {"max_area": 64 * 64, "divisor": 16},
    {"max_area": 48 * 48, "divisor": 16, "max_side": 64, "leftovers": "merge",
     "constant": "pixels"},
)  # fmt: skip
LENGTHS = (
    {"field": "words", "multiple": 2},
    {"field": "words", "multiple": 2, "max_length": 5, "longer": "truncate",
     "constant": "tokens", "max_rows": 7},
)  # fmt: skip
BUCKETS = {"fitted": SIZES, "sentences": LENGTHS}
MIXES = (
    ({"photos": 0.7, "tars": 0.3}, "windows"),
    ({"photos": 0.6, "boxed": 0.4}, {"photos": "squares", "boxed": "windows"}),
    ({"tars": 1, "boxed": 2, "photos": 5}, "windows"),
)
DATASETS = {
    "crops": "photos",
    "training": "photos",
    "padded": "photos",
    "evaluation": "photos",
    "scheduled": "photos",
    "fitted": "photos",
    "folded": "photos",
    "mixed": "photos",
    "detection": "boxed",
    "mosaics": "boxed",
    "varying": "boxed",
    "sentences": "boxed",
}
WEIGHTS = {"photos": {"day": 1, "night": 2.5}, "boxed": "weight"}


class Stream(NamedTuple):
    """A stream.

    Attributes:
        name: of its pipeline, "sent" for a random one, "mix" for a mixture.
        data: arguments of a Loader as JSON; see `reader.py`.
        expected: the digest of each global batch.
    """

    name: str
    data: dict[str, object]
    expected: list[str]


class Streams:
    """Draws streams of the datasets; `reference` is `law.reference`.

    Of random pipelines there are `pipelines`.
    """

    def __init__(
        self,
        datasets: Mapping[str, Path],
        reference: Callable[..., list[str]],
        pipelines: int = USUAL,
    ) -> None:
        self._datasets = datasets
        self._reference = reference
        self._pipelines = pipelines

    def draw(self, rng: random.Random) -> Stream:
        """Return a stream."""
        data = {
            "global_batch_size": rng.randrange(3, 14),
            "seed": rng.randrange(2**64),
            "shuffle": rng.random() < 0.8,
            "last": "drop" if rng.random() < 0.5 else "pad",
            "views": rng.choice((1, 1, 2)),
            "total_epochs": EPOCHS,
        }
        kind = rng.random()
        if kind < 0.12:
            data["mix"], data["pipeline"] = rng.choice(MIXES)
            return Stream("mix", data, self._mixed(data))
        if rng.random() < 0.2:
            data["exclude"] = rng.sample(range(SAMPLES), 5)
        if rng.random() < 0.2 and data["shuffle"]:
            data["shuffle_block_size"] = rng.choice((4, 9))
        if kind < 0.42:
            written = Writer(rng.randrange(self._pipelines)).graph()
            data["graph"] = Graph.from_data(written).to_data()
            data["dataset"] = "boxed"
            if rng.random() < 0.2:
                data["weights"] = "weight"
            return Stream("sent", data, self._digests(data))
        name = data["pipeline"] = rng.choice(sorted(DATASETS))
        data["dataset"] = DATASETS[name]
        if name in BUCKETS:
            data.pop("shuffle_block_size", None)
            data["buckets"] = rng.choice(BUCKETS[name])
        elif rng.random() < 0.2:
            data["weights"] = WEIGHTS[data["dataset"]]
        return Stream(name, data, self._digests(data))

    def _digests(self, data: Mapping[str, object]) -> list[str]:
        """Return the digests of a stream by the interpreter."""
        options = loader_options(data)
        named = options["pipeline"]
        found = getattr(law_pipelines, named) if isinstance(named, str) else named
        return self._reference(
            self._datasets[data["dataset"]],
            found.graph(),
            range(EPOCHS),
            options.get("buckets"),
            data.get("exclude", ()),
            data.get("weights"),
            **_fields(data),
        )

    def _mixed(self, data: Mapping[str, object]) -> list[str]:
        """Return the digests of a mixture by the interpreter."""
        own = data["pipeline"]
        parts = [
            (
                self._datasets[name],
                getattr(law_pipelines, own[name] if isinstance(own, dict) else own).graph(),
                ratio,
            )
            for name, ratio in data["mix"].items()
        ]
        return [
            batch_digest(arrays, epoch, step)
            for epoch in range(EPOCHS)
            for step, arrays in reference_mix(parts, epoch=epoch, **_fields(data))
        ]


def _fields(data: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a StreamSpec."""
    return {
        "batch_size": data["global_batch_size"],
        "seed": data["seed"],
        "order": OrderSpec(shuffle=data["shuffle"], block=data.get("shuffle_block_size")),
        "tail": data["last"],
        "views": data["views"],
        "total_epochs": data["total_epochs"],
    }
