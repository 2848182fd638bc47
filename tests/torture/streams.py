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
from options import ORDER, ROWS, SAMPLES, add
from random_graphs import Writer
from reader import loader_options, with_params

from stoker.client.batches.batch_params import read_params
from stoker.client.batches.short_batch import first_rows, real_rows
from stoker.dataset import open_dataset
from stoker.dataset.format.manifest import read_manifest
from stoker.dataset.format.manifest_splits import split_subset
from stoker.pipeline.engine.drawing import drawn_by
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.planning.bucket_graph import Size
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.planner import bind
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import SampleError
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.field_states import field_states
from stoker.server.rows.reference import make_spec, reference_batches, reference_mix

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
FULLEST_BUCKET = 7
"""Least number of its samples among those that an exclude list or a subset leaves."""
MIXES = (
    ({"photos": 0.7, "tars": 0.3}, "windows"),
    ({"photos": 0.6, "boxed": 0.4}, {"photos": "squares", "boxed": "windows"}),
    ({"tars": 1, "boxed": 2, "photos": 5}, "windows"),
    ({"spoiled": 2, "photos": 1}, {"photos": "windows", "spoiled": "squares"}),
)
PIPELINES = {
    "photos": ("crops", "training", "padded", "evaluation", "scheduled", "fitted", "folded",
               "mixed"),
    "boxed": ("detection", "mosaics", "varying", "sentences"),
}  # fmt: skip
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
        if rng.random() < 0.12:
            data["mix"], data["pipeline"] = rng.choice(MIXES)
            add(ORDER, data, rng)
            return self._mixture(data, rng)
        data["dataset"] = rng.choices(("photos", "boxed", "spoiled"), (4, 4, 2))[0]
        return self._drawn(data, rng, sent=0.35)

    def draw_fork(self, rng: random.Random, count: int) -> list[Stream]:
        """Return the streams of a fork's members: one order, other pipelines, seeds and options."""
        data = draw_batches(rng)
        seed = rng.randrange(2**64)
        if data["shuffle"]:
            data["shuffle_seed"] = seed
        if rng.random() < 0.15:
            data["mix"], _ = rng.choice(MIXES)
        else:
            dataset = data["dataset"] = rng.choice(("photos", "boxed", "spoiled"))
            if rng.random() < 0.2:
                data["pipeline"] = rng.choice([n for n in PIPELINES[dataset] if n in BUCKETS])
                data["buckets"] = rng.choice(BUCKETS[data["pipeline"]])
        add(ORDER, data, rng)
        if data.get("weights") or "mix" in data:  # then something is drawn, also in order
            data["shuffle_seed"] = seed
        return [self._member(data | {"seed": rng.randrange(2**64)}, rng) for _ in range(count)]

    def _member(self, data: dict[str, Any], rng: random.Random) -> Stream:
        if "mix" not in data:
            return self._drawn(data, rng, sent=0.2, fork=True)
        data["pipeline"] = {name: rng.choice(("windows", "squares")) for name in data["mix"]}
        return self._mixture(data, rng)

    def _mixture(self, data: dict[str, Any], rng: random.Random) -> Stream:
        if "spoiled" in data["mix"]:
            data["on_error"] = rng.choice(POLICIES)
        add(ROWS, data, rng, self._mixed_streams(data))
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
        elif dataset != "photos" and rng.random() < sent:
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
        if "buckets" in data and ("exclude" in data or "subset" in data):
            data["global_batch_size"] = min(data["global_batch_size"], FULLEST_BUCKET)
        add(ROWS, data, rng, self._plan(data).streams)
        return self._finished(name, data)

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
        find = self._mixed if "mix" in data else self._batches
        return [batch_digest(arrays, *place) for place, arrays in find(data)]

    def _plan(self, data: Mapping[str, Any]) -> Plan:
        with open_dataset(self._datasets[data["dataset"]]) as dataset:
            bucket = A_BUCKET.get(data.get("pipeline", ""))
            return bind(_graph(data), field_states(dataset), bucket=bucket)

    def _mixed_streams(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of all draws of a mixture's pipelines."""
        found: set[str] = set()
        for name, graph in _mixed_graphs(data).items():
            with open_dataset(self._datasets[name]) as dataset:
                found.update(bind(graph, field_states(dataset)).streams)
        return tuple(sorted(found))

    def _batches(self, data: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int], dict]]:
        """Yield (epoch, step) and the parts of each batch of a stream, by the interpreter."""
        path, graph = self._datasets[data["dataset"]], _graph(data)
        options = loader_options(data)
        given = {
            "buckets": options.get("buckets"),
            "exclude": self._left_out(data),
            "weights": data.get("weights"),
        }
        spec = make_spec(path, graph, **given, **_fields(data))
        params = bool(data.get("params"))
        drawn = drawn_by(self._plan(data)) if params else ()
        for epoch in range(EPOCHS):
            found = reference_batches(path, graph, spec, epoch=epoch, params=params, **given)
            for step, arrays in found:
                records = arrays.pop("params", None)
                known = {} if records is None else read_params(drawn, records)
                cut = _cut({**arrays, "params": known}, data)
                known = cut.pop("params")
                yield (epoch, step), with_params(cut, known)

    def _left_out(self, data: Mapping[str, Any]) -> set[int]:
        """Return the samples that do not occur: a subset is the stream without all others."""
        subset = data.get("subset", range(SAMPLES))
        if isinstance(subset, str):
            splits = read_manifest(self._datasets[data["dataset"]]).splits
            subset = split_subset(splits, subset, SAMPLES).ids.tolist()
        return {*range(SAMPLES)} - {*subset} | {*data.get("exclude", ())}

    def _mixed(self, data: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int], dict]]:
        """The same for a mixture."""
        graphs = _mixed_graphs(data)
        parts = [(self._datasets[name], graphs[name], ratio) for name, ratio in data["mix"].items()]
        for epoch in range(EPOCHS):
            for step, arrays in reference_mix(parts, epoch=epoch, **_fields(data)):
                yield (epoch, step), _cut(arrays, data)


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


def _graph(data: Mapping[str, Any]) -> Graph:
    named = loader_options(data)["pipeline"]
    return (getattr(law_pipelines, named) if isinstance(named, str) else named).graph()


def _mixed_graphs(data: Mapping[str, Any]) -> dict[str, Graph]:
    """Return the pipeline of each dataset of a mixture."""
    own = data["pipeline"]
    names = own if isinstance(own, dict) else dict.fromkeys(data["mix"], own)
    return {name: getattr(law_pipelines, given).graph() for name, given in names.items()}


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
