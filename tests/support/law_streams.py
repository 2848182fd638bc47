"""The streams of the Law: one table; tests/law proves each for workers, kills, ranks and resumes.

A stream is what a Loader is given, in one line an option; see `loading.grouped`. `batch_size` is
that of all ranks. tests/law/test_pairs.py says which pairs of options have no stream yet.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import law_pipelines

from stoker.client import Buckets, LengthBuckets
from stoker.pipeline.graph.graph import Graph
from stoker.protocol.digest import batch_digest
from stoker.protocol.request.stream_options import STREAM_OPTIONS
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.reference import MixSource, make_spec, reference_batches, reference_mix

SAMPLES = 37
"""Number of samples of each dataset, but those of clips and a few others."""
EPOCHS = range(2)
MOST_OPTIONS = {
    "mix": {"photos": 0.5, "boxed": 0.5},
    "pipeline": {"photos": "cropped", "boxed": "cropped_flips"},
    "batch_size": 4,
    "seed": 6,
    "shuffle_seed": 9,
    "views": 2,
    "last": "pad",
    "on_error": "replace",
    "total_epochs": 2,
    "freeze": {"fit_bucket": 7},
    "exclude": {"photos": [1, 2]},
    "subset": {"boxed": [*range(30)]},
    "weights": {"photos": {"day": 1, "night": 3}},
    "buckets": Buckets(max_area=32 * 32, divisor=16, max_side=48),
    "params": True,
}
"""Every option but those that a shuffle decides."""
SINGLE: dict[str, dict[str, Any]] = {
    "crops": {"pipeline": "crops", "batch_size": 8, "seed": 5},
    "training": {"pipeline": "training", "batch_size": 6, "seed": 2**64 - 1},
    "padded": {"pipeline": "padded", "batch_size": 10, "seed": 0, "last": "pad"},
    "evaluation": {"pipeline": "evaluation", "batch_size": 9, "shuffle": False, "last": "pad"},
    "views": {"pipeline": "crops", "batch_size": 5, "seed": 9, "views": 3},
    "scheduled": {"pipeline": "scheduled", "batch_size": 7, "seed": 11, "total_epochs": 2},
    "boxes": {"pipeline": "detection", "dataset": "boxed", "batch_size": 7, "last": "pad"},
    "buckets": {
        "pipeline": "fitted",
        "batch_size": 4,
        "seed": 12,
        "total_epochs": 3,
        "buckets": Buckets(max_area=64 * 64, divisor=16),
    },
    "pixels": {
        "pipeline": "fitted",
        "batch_size": 3,
        "total_epochs": 2,
        "last": "pad",
        "views": 2,
        "buckets": Buckets(
            max_area=48 * 48, divisor=16, max_side=64, leftovers="merge", constant="pixels"
        ),
    },
    "mixed buckets": {
        "pipeline": "fitted_mixed",
        "batch_size": 9,
        "seed": 6,
        "buckets": Buckets(
            max_area=32 * 32,
            divisor=16,
            max_side=48,
            leftovers="merge",
            constant="pixels",
            max_rows=12,
        ),
    },
    "forms in buckets": {
        "pipeline": "fitted_forms",
        "dataset": "boxed",
        "batch_size": 3,
        "seed": 8,
        "last": "pad",
        "buckets": Buckets(max_area=32 * 32, divisor=16, max_side=48),
    },
    "lengths": {
        "pipeline": "sentences",
        "dataset": "boxed",
        "batch_size": 4,
        "seed": 9,
        "views": 2,
        "buckets": LengthBuckets(
            field="words",
            multiple=2,
            max_length=5,
            longer="truncate",
            constant="tokens",
            max_rows=7,
        ),
    },
    "forms": {
        "pipeline": "varying",
        "dataset": "boxed",
        "batch_size": 6,
        "seed": 4,
        "views": 2,
        "last": "pad",
        "total_epochs": 2,
    },
    "frozen": {
        "pipeline": "training",
        "batch_size": 7,
        "seed": 3,
        "freeze": {"color_jitter": 7, "horizontal_flip": "epoch"},
    },
    "folded": {"pipeline": "folded", "batch_size": 9, "seed": 4, "last": "pad"},
    "mixed": {"pipeline": "mixed", "batch_size": 7, "seed": 2, "views": 2, "last": "pad"},
    "mosaics": {"pipeline": "mosaics", "dataset": "boxed", "batch_size": 9, "seed": 1},
    "pasted": {"pipeline": "pasted", "batch_size": 9, "seed": 4},
    "tars": {"pipeline": "crops", "dataset": "tars", "batch_size": 7, "seed": 6, "last": "pad"},
    "arrows": {"pipeline": "crops", "dataset": "arrows", "batch_size": 6, "seed": 7, "views": 2},
    "planes": {"pipeline": "crops", "dataset": "planes", "batch_size": 8, "seed": 5},
    "live": {"pipeline": "mixed", "dataset": "live", "batch_size": 9, "seed": 8, "last": "pad"},
    "excluded": {
        "pipeline": "mosaics",
        "dataset": "boxed",
        "batch_size": 7,
        "seed": 1,
        "views": 2,
        "last": "pad",
        "exclude": [36, 4, 5, 0, 11, 30, 17],
    },
    "weighted": {
        "pipeline": "mosaics",
        "dataset": "boxed",
        "batch_size": 7,
        "seed": 3,
        "last": "pad",
        "exclude": [36, 4],
        "weights": "weight",
    },
    "weighted classes": {
        "pipeline": "mixed",
        "batch_size": 6,
        "seed": 4,
        "views": 2,
        "weights": {"day": 1, "night": 2.5},
    },
    "blocks": {
        "pipeline": "crops",
        "batch_size": 5,
        "seed": 6,
        "shuffle_block_size": 8,
        "last": "pad",
    },
    "own order": {
        "pipeline": "mixed",
        "batch_size": 7,
        "seed": 8,
        "shuffle_seed": 5,
        "shuffle_block_size": 9,
        "weights": {"day": 1, "night": 2},
    },
    "own order of buckets": {
        "pipeline": "fitted",
        "batch_size": 4,
        "seed": 8,
        "shuffle_seed": 5,
        "total_epochs": 2,
        "buckets": Buckets(max_area=64 * 64, divisor=16),
    },
    "weighted blocks": {
        "pipeline": "crops",
        "batch_size": 5,
        "seed": 7,
        "shuffle_block_size": 6,
        "weights": {"day": 1, "night": 3},
    },
    "weighted buckets in blocks": {
        "pipeline": "fitted_mixed",
        "batch_size": 5,
        "seed": 10,
        "shuffle_block_size": 4,
        "exclude": [3, 8],
        "weights": {"day": 1, "night": 3},
        "buckets": Buckets(max_area=32 * 32, divisor=16, max_side=48, leftovers="merge"),
    },
    "most options": {
        "pipeline": "scheduled",
        "batch_size": 7,
        "seed": 3,
        "views": 2,
        "last": "pad",
        "on_error": "mask",
        "total_epochs": 2,
        "freeze": {"random_resized_crop": 7},
        "shuffle_seed": 5,
        "shuffle_block_size": 6,
        "weights": {"day": 1, "night": 2},
        "exclude": [3, 9],
    },
    "most options in order": {
        "pipeline": "scheduled",
        "batch_size": 9,
        "shuffle": False,
        "on_error": "replace",
        "total_epochs": 2,
        "freeze": {"random_resized_crop": "epoch"},
    },
    "most options of buckets": {
        "pipeline": "fitted",
        "batch_size": 4,
        "seed": 3,
        "on_error": "replace",
        "total_epochs": 2,
        "freeze": {"fit_bucket": 7},
        "buckets": Buckets(max_area=64 * 64, divisor=16),
    },
    "excluded_buckets": {
        "pipeline": "fitted",
        "batch_size": 4,
        "total_epochs": 2,
        "exclude": [1, 2, 20, 36],
        "buckets": Buckets(max_area=64 * 64, divisor=16),
    },
    "floats": {"pipeline": "floats", "dataset": "floats", "batch_size": 8, "seed": 3},
    "halves": {"pipeline": "halved", "dataset": "halves", "batch_size": 8, "seed": 3},
    "reduced": {"pipeline": "reduced", "dataset": "halves", "batch_size": 8, "seed": 3, "views": 2},
    "halves in windows": {
        "pipeline": "halved_windows",
        "dataset": "halves",
        "batch_size": 8,
        "seed": 3,
    },
    "clips": {"pipeline": "clips", "dataset": "clips", "batch_size": 2, "seed": 5},
    "clip centers": {
        "pipeline": "clip_centers",
        "dataset": "clips",
        "batch_size": 5,
        "shuffle": False,
        "last": "pad",
    },
}
"""Streams of one dataset."""
MIXES: dict[str, dict[str, Any]] = {
    "everything": {**MOST_OPTIONS, "shuffle_block_size": 5},
    "everything in order": {**MOST_OPTIONS, "shuffle": False},
    "scheduled mixture": {
        "mix": {"photos": 0.6, "boxed": 0.4},
        "pipeline": "scheduled",
        "batch_size": 7,
        "seed": 3,
        "total_epochs": 2,
        "on_error": "replace",
    },
    "one pipeline": {
        "mix": {"photos": 0.7, "tars": 0.3},
        "pipeline": "windows",
        "batch_size": 7,
        "seed": 5,
    },
    "mixture in order": {
        "mix": {"tars": 1, "boxed": 2, "photos": 5},
        "pipeline": "windows",
        "batch_size": 6,
        "views": 2,
        "shuffle": False,
    },
    "own pipelines": {
        "mix": {"photos": 0.6, "boxed": 0.4},
        "pipeline": {"photos": "squares", "boxed": "windows"},
        "batch_size": 8,
        "seed": 2,
        "freeze": {"color_jitter": 7},
    },
    "mixture of selections": {
        "mix": {"photos": 0.6, "boxed": 0.4},
        "pipeline": {"photos": "blended", "boxed": "blended_squares"},
        "batch_size": 6,
        "seed": 4,
        "shuffle_block_size": 5,
        "shuffle_seed": 9,
        "exclude": {"photos": [1, 2, 30], "boxed": [0]},
        "weights": {"boxed": "weight"},
    },
    "mixture in buckets": {
        "mix": {"photos": 0.3, "boxed": 0.5, "tars": 0.2},
        "pipeline": {"photos": "cropped", "boxed": "cropped_flips", "tars": "cropped"},
        "batch_size": 4,
        "seed": 5,
        "total_epochs": 2,
        "exclude": {"tars": [4, 5, 6]},
        "weights": {"photos": {"day": 1, "night": 3}},
        "buckets": Buckets(max_area=32 * 32, divisor=16, max_side=48),
    },
    "padded mixture": {
        "mix": {"photos": 0.2, "boxed": 0.8},
        "pipeline": {"photos": "ragged", "boxed": "ragged_squares"},
        "batch_size": 5,
        "seed": 8,
    },
    "mixture with batch ops": {
        "mix": {"photos": 0.6, "boxed": 0.4},
        "pipeline": {"photos": "blended_squares", "boxed": "blended"},
        "batch_size": 9,
        "seed": 3,
    },
    "clips of a mixture in buckets": {
        "mix": {"clips": 2, "smaller": 1},
        "pipeline": "clips_in_buckets",
        "batch_size": 2,
        "seed": 5,
        "exclude": {"clips": [1]},
        "buckets": Buckets(max_area=32 * 32, divisor=8),
    },
}
"""Mixtures."""
STREAMS = SINGLE | MIXES


def options(name: str) -> dict[str, Any]:
    """Return a stream as arguments of a Loader."""
    given = dict(STREAMS[name])
    if "mix" not in given:
        given = {"dataset": "photos"} | given
    given["global_batch_size"] = given.pop("batch_size")
    return given


def used(name: str) -> set[str]:
    """Return the declared options that a stream gives another value than their default."""
    given = dict(STREAMS[name])
    given["drop_last"] = given.pop("last", "drop") == "drop"
    for option in ("seed", "block_size"):
        given[f"Shuffle.{option}"] = given.pop(f"shuffle_{option}", None)
    return {
        option
        for option, value in given.items()
        if option in STREAM_OPTIONS and value != STREAM_OPTIONS[option].default
    }


def graph_of(name: str, dataset: str) -> Graph:
    """Return the pipeline of a dataset of a stream."""
    own = STREAMS[name]["pipeline"]
    found: Graph = getattr(law_pipelines, own if isinstance(own, str) else own[dataset]).graph()
    return found


def fields_of(name: str) -> dict[str, Any]:
    """Return a stream as fields of a StreamSpec, and what the reference is given besides."""
    fields = dict(STREAMS[name])
    for option in ("mix", "pipeline", "dataset", "params"):
        fields.pop(option, None)
    fields["order"] = OrderSpec(
        shuffle=bool(fields.pop("shuffle", True)),
        block=fields.pop("shuffle_block_size", None),
        seed=fields.pop("shuffle_seed", None),
    )
    fields["tail"] = fields.pop("last", "drop")
    return fields


def expected_digests(datasets: Mapping[str, Path], name: str) -> list[str]:
    """Return the digests of a stream, by the interpreter in this process."""
    batches = _of_mixture if "mix" in STREAMS[name] else _of_dataset
    return [
        batch_digest(arrays, epoch, step)
        for epoch in EPOCHS
        for step, arrays in batches(datasets, name, epoch)
    ]


def _of_dataset(datasets: Mapping[str, Path], name: str, epoch: int) -> Any:
    dataset = STREAMS[name].get("dataset", "photos")
    path, graph, fields = datasets[dataset], graph_of(name, dataset), fields_of(name)
    given = {option: fields.pop(option, None) for option in ("buckets", "weights")}
    given["exclude"] = fields.pop("exclude", ())
    spec = make_spec(path, graph, **given, **fields)
    return reference_batches(path, graph, spec, epoch=epoch, **given)


def _of_mixture(datasets: Mapping[str, Path], name: str, epoch: int) -> Any:
    """A subset is the exclude list of all other samples."""
    fields = fields_of(name)
    exclude, subset = fields.pop("exclude", {}), fields.pop("subset", {})
    weights = fields.pop("weights", {})
    left_out = {key: set(range(SAMPLES)) - set(ids) for key, ids in subset.items()}
    parts = [
        MixSource(
            datasets[key], graph_of(name, key), ratio,
            sorted(left_out.get(key, set()) | set(exclude.get(key, ()))), weights.get(key),
        )
        for key, ratio in STREAMS[name]["mix"].items()
    ]  # fmt: skip
    return reference_mix(parts, epoch=epoch, **fields)
