"""The streams of a storm: what a seed draws, and the digests that the law demands.

A stream is a pipeline of the Law's table, a random one that the client sends as data, one with
buckets of sizes or of lengths, or a mixture of datasets; `options` has the tables of its further
arguments. Streams of `spoiled`, a dataset with bad samples, replace or mask these.
"""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import law_pipelines
from options import CONDITIONS, ORDER, ROWS, add, count_of
from random_graphs import Writer
from reader import loader_options, with_params

from stoker.client.batches.batch_params import read_params
from stoker.client.batches.short_batch import first_rows, real_rows
from stoker.dataset import open_dataset
from stoker.dataset.format.manifest import read_manifest
from stoker.dataset.format.manifest_splits import split_subset
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.planning.bucket_graph import Size
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.planner import bind
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import SampleError, UsageError
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.clip_samples import samples_of
from stoker.server.rows.condition import samples_where
from stoker.server.rows.field_states import field_states
from stoker.server.rows.joined_pipelines import joined_records
from stoker.server.rows.reference import (
    MixSource,
    make_spec,
    reference_batches,
    reference_mix,
)

EPOCHS = 2
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
A_BUCKET = {"fitted": Size(32, 32), "sentences": Size(0, 4)}
"""Any one: what a pipeline draws is the same in all of them."""
LEAST_BATCH = 2
"""Positions of a batch where selections leave few samples in buckets, or of clips."""
MIXES: tuple[tuple[dict[str, float], Any, Any], ...] = (
    ({"photos": 0.7, "tars": 0.3}, "windows", None),
    ({"photos": 0.6, "boxed": 0.4}, {"photos": "squares", "boxed": "windows"}, None),
    ({"tars": 1, "boxed": 2, "photos": 5}, "windows", None),
    ({"spoiled": 2, "photos": 1}, {"photos": "windows", "spoiled": "squares"}, None),
    ({"photos": 1, "boxed": 4}, {"photos": "ragged", "boxed": "ragged_squares"}, None),
    ({"photos": 3, "boxed": 2}, {"photos": "blended_squares", "boxed": "blended"}, None),
    ({"photos": 0.5, "boxed": 0.5}, {"photos": "cropped", "boxed": "cropped_flips"}, SIZES),
    ({"clips": 2, "smaller": 1}, "clips", None),
    ({"clips": 1, "smaller": 1}, "clips_in_buckets", SIZES),
)
"""Datasets, their pipelines, and buckets."""
IN_FORKS = {"windows": ("windows", "squares"), "clips": ("clips",)}
"""Pipelines of a mixture -> those that members of a fork draw from; others keep their own."""
PIPELINES = {
    "photos": ("crops", "training", "padded", "evaluation", "scheduled", "fitted", "folded",
               "mixed"),
    "boxed": ("detection", "mosaics", "varying", "sentences"),
}  # fmt: skip
PIPELINES["clips"] = ("clips", "clip_centers")
PIPELINES["spoiled"] = (*PIPELINES["photos"], *PIPELINES["boxed"])
BAD = {3: "image", 11: "mask", 22: "image", 36: "mask"}
"""Samples of `spoiled` that cannot be decoded, and by which field."""
POLICIES = ("replace", "mask")


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
    """Draws streams of the datasets. Of random pipelines there are `pipelines`."""

    def __init__(self, datasets: Mapping[str, Path], pipelines: int = USUAL) -> None:
        self._datasets = datasets
        self._pipelines = pipelines

    def draw(self, rng: random.Random) -> Stream:
        """Return a stream."""
        data = draw_batches(rng)
        if rng.random() < 0.25:
            self._draw_mixture(data, rng)
            add(ORDER, data, rng)
            return self._mixture(data, rng)
        data["dataset"] = rng.choices(("photos", "boxed", "spoiled", "clips"), (4, 4, 2, 1))[0]
        return self._drawn(data, rng, sent=0.35)

    def _draw_mixture(self, data: dict[str, Any], rng: random.Random) -> None:
        data["mix"], data["pipeline"], buckets = rng.choice(MIXES)
        if buckets is not None:
            data["buckets"] = rng.choice(buckets)

    def draw_fork(self, rng: random.Random, count: int) -> list[Stream]:
        """Return the streams of a fork's members: one order, other pipelines, seeds and options."""
        data = draw_batches(rng)
        seed = rng.randrange(2**64)
        if rng.random() < 0.3:
            self._draw_mixture(data, rng)
        else:
            dataset = data["dataset"] = rng.choice(("photos", "boxed", "spoiled", "clips"))
            bucketed = [name for name in PIPELINES[dataset] if name in BUCKETS]
            if bucketed and rng.random() < 0.2:
                data["pipeline"] = rng.choice(bucketed)
                data["buckets"] = rng.choice(BUCKETS[data["pipeline"]])
        add(ORDER, data, rng)
        data["shuffle_seed"] = seed  # one, for weights, mixtures and substitutes
        self._fit(data, data.get("pipeline") or PIPELINES[data["dataset"]][0])
        return [self._member(data | {"seed": rng.randrange(2**64)}, rng) for _ in range(count)]

    def _member(self, data: dict[str, Any], rng: random.Random) -> Stream:
        if "mix" not in data:
            return self._drawn(data, rng, sent=0.2, fork=True)
        own = data["pipeline"]
        for known, others in IN_FORKS.items():
            if known in (own.values() if isinstance(own, dict) else (own,)):
                data["pipeline"] = {name: rng.choice(others) for name in data["mix"]}
        return self._mixture(data, rng)

    def _mixture(self, data: dict[str, Any], rng: random.Random) -> Stream:
        if "spoiled" in data["mix"]:
            data["on_error"] = rng.choice(POLICIES)
        self._fit(data, data["pipeline"])
        add(ROWS, data, rng, tuple(sorted({s for p in self._plans(data) for s in p.streams})))
        return self._finished("mix", data)

    def _drawn(
        self, data: dict[str, Any], rng: random.Random, *, sent: float, fork: bool = False
    ) -> Stream:
        """Draw the pipeline and what goes with it."""
        dataset = data["dataset"]
        if dataset == "spoiled":
            data["on_error"] = rng.choice(POLICIES)
        if "buckets" in data:
            name = data["pipeline"]
        elif dataset in ("boxed", "spoiled") and rng.random() < sent:
            name = "sent"
            written = Writer(rng.randrange(self._pipelines)).graph()
            data["graph"] = Graph.from_data(written).to_data()
        else:
            known = [n for n in PIPELINES[dataset] if not (fork and n in BUCKETS)]
            name = data["pipeline"] = rng.choice(known)
            if name in BUCKETS:
                data["buckets"] = rng.choice(BUCKETS[name])
        if not fork:
            add(ORDER, data, rng)
        if not fork:
            self._fit(data, data.get("pipeline"))
        add(ROWS, data, rng, self._plans(data)[0].streams)
        return self._finished(name, data)

    def _fit(self, data: dict[str, Any], pipeline: object) -> None:
        """Make batches smaller, then leave selections out, until an epoch has a batch."""
        graph = {} if "graph" in data else {"pipeline": pipeline}
        for change in ({}, {"global_batch_size": LEAST_BATCH}, {"subset": None}, {"exclude": None}):
            data |= change
            for name in [name for name, value in data.items() if value is None]:
                del data[name]
            policy = {} if data.get("on_error") else {"on_error": "mask"}
            try:
                next(self._batches(data | graph | policy))
            except (UsageError, StopIteration):
                continue
            return
        raise AssertionError(f"no batch fits: {data}")

    def _finished(self, name: str, data: dict[str, Any]) -> Stream:
        try:
            return Stream(name, data, self._digests(data))
        except SampleError as error:
            if "substitutes" not in error.message:
                raise
            # Of a small bucket, all samples can be bad; where rows differ in size, a substitute
            # must fit into the batch, and none may.
            data["on_error"] = "mask"
            return Stream(name, data, self._digests(data))

    def _digests(self, data: Mapping[str, Any]) -> list[str]:
        return [batch_digest(arrays, *place) for place, arrays in self._batches(data)]

    def _plans(self, data: Mapping[str, Any]) -> list[Plan]:
        """Return the plan of each dataset's pipeline; in buckets, that of any one."""
        found = []
        for name, graph in _graphs(data).items():
            with open_dataset(self._datasets[name]) as dataset:
                bucket = A_BUCKET.get(data.get("pipeline", "")) if "mix" not in data else None
                if "mix" in data and "buckets" in data:
                    bucket = A_BUCKET["fitted"]
                samples = samples_of(dataset, graph)
                found.append(bind(graph, field_states(samples), bucket=bucket))
        return found

    def _batches(self, data: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int], dict]]:
        """Yield (epoch, step) and the parts of each batch of a stream, by the interpreter."""
        params = bool(data.get("params"))
        plans = self._plans(data) if params else []
        drawn = joined_records(plans, list(data.get("mix", ())))[0] if params else ()
        find = self._of_mixture if "mix" in data else self._of_dataset
        for epoch in range(EPOCHS):
            for step, arrays in find(data, epoch, params):
                records = arrays.pop("params", None)
                known = {} if records is None else read_params(drawn, records)
                cut = _cut({**arrays, "params": known}, data)
                known = cut.pop("params")
                yield (epoch, step), with_params(cut, known)

    def _of_dataset(
        self, data: Mapping[str, Any], epoch: int, params: bool
    ) -> Iterator[tuple[int, dict]]:
        ((name, graph),) = _graphs(data).items()
        path = self._datasets[name]
        given = {
            "buckets": loader_options(data).get("buckets"),
            "exclude": self._left_out(name, data.get("subset"), data.get("exclude")),
            "weights": data.get("weights"),
        }
        spec = make_spec(path, graph, **given, **_fields(data))
        return reference_batches(path, graph, spec, epoch=epoch, params=params, **given)

    def _of_mixture(
        self, data: Mapping[str, Any], epoch: int, params: bool
    ) -> Iterator[tuple[int, dict]]:
        graphs = _graphs(data)
        subset, exclude, weights = (data.get(one, {}) for one in ("subset", "exclude", "weights"))
        parts = [
            MixSource(
                self._datasets[name], graphs[name], ratio,
                self._left_out(name, subset.get(name), exclude.get(name)), weights.get(name),
            )
            for name, ratio in data["mix"].items()
        ]  # fmt: skip
        buckets = loader_options(data).get("buckets")
        return reference_mix(parts, epoch=epoch, params=params, buckets=buckets, **_fields(data))

    def _left_out(self, name: str, subset: object, exclude: Any) -> set[int]:
        """Return the samples that do not occur: a subset is the stream without all others."""
        every = range(count_of(name))
        chosen: Any = every if subset is None else subset
        if isinstance(chosen, str) and chosen in CONDITIONS.get(name, ()):
            with open_dataset(self._datasets[name]) as dataset:
                chosen = samples_where(dataset, chosen).ids.tolist()
        elif isinstance(chosen, str):
            splits = read_manifest(self._datasets[name]).splits
            chosen = split_subset(splits, chosen, len(every)).ids.tolist()
        return {*every} - {*chosen} | {*(exclude or ())}


def draw_batches(rng: random.Random) -> dict[str, Any]:
    """Return what every stream has."""
    return {
        "global_batch_size": rng.randrange(3, 14),
        "seed": rng.randrange(2**64),
        "shuffle": rng.random() < 0.8,
        "last": rng.choice(("drop", "drop", "pad", "short")),
        "views": rng.choice((1, 1, 2)),
        "total_epochs": EPOCHS,
    }


def _cut(arrays: dict[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of a batch that a stream delivers."""
    return first_rows(arrays, real_rows(arrays)) if data["last"] == "short" else arrays


def _graphs(data: Mapping[str, Any]) -> dict[str, Graph]:
    """Return the pipeline of each dataset."""
    own = loader_options(data)["pipeline"]
    every = data.get("mix") or [data["dataset"]]
    named = own if isinstance(own, dict) else dict.fromkeys(every, own)
    return {
        name: (getattr(law_pipelines, one) if isinstance(one, str) else one).graph()
        for name, one in named.items()
    }


def _fields(data: Mapping[str, Any]) -> dict[str, object]:
    """Return the fields of a StreamSpec."""
    return {
        "batch_size": data["global_batch_size"],
        "seed": data["seed"],
        "order": OrderSpec(
            shuffle=data["shuffle"],
            block=data.get("shuffle_block_size"),
            seed=data.get("shuffle_seed"),
        ),
        "tail": "drop" if data["last"] == "drop" else "pad",
        "views": data["views"],
        "total_epochs": data["total_epochs"],
        "freeze": data.get("freeze", {}),
        "on_error": data.get("on_error", "raise"),
    }
