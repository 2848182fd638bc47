"""Storms: workers are killed at random while streams are read; not one byte may differ.

Every storm is decided by its seed: which streams, how many ranks, which prefetch depth, and after
which batches a worker, or the template with all workers, is killed with SIGKILL. There is no clock
in it: the next kill comes when so many batches were delivered. Streams are those of the Law's
table, and random pipelines, which a client sends as data; batch ops, buckets, boxes and outputs of
varying shape are among both. What is delivered is compared with the interpreter's stream, batch by
batch. STOKER_STORMS sets how many storms of 20 kills there are, STOKER_STORMS_FROM the first seed.
"""

import contextlib
import os
import random
import signal
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import law_pipelines
import numpy as np
import pytest
from daemons import children
from random_graphs import Writer

from stoker.client import Buckets, Loader
from stoker.pipeline.graph.graph import Graph
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.spec import OrderSpec

FIRST = int(os.environ.get("STOKER_STORMS_FROM", "0"))
STORMS = int(os.environ.get("STOKER_STORMS", "6"))
USUAL = 10
EPOCHS = 3
KILLS = 20
BUCKETS = (
    Buckets(max_area=64 * 64, divisor=16),
    Buckets(max_area=48 * 48, divisor=16, max_side=64, leftovers="merge", constant="pixels"),
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
}


def kill_one(rng: random.Random, daemon_pid: int) -> bool:
    """Kill a worker, or sometimes the template; False if there was nobody to kill."""
    templates = children(daemon_pid)
    if not templates:
        return False
    workers = children(templates[0]) if rng.random() < 0.95 else []
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(rng.choice(workers or templates), signal.SIGKILL)
        return True
    return False


def pipeline(rng: random.Random, storm: int) -> dict[str, object]:
    """A pipeline as arguments of Loader: one of the Law's, or for one stream in three a random one.

    The usual storms draw theirs from the pipelines whose kernels other tests have compiled.
    """
    if rng.random() < 1 / 3:
        graph = Graph.from_data(Writer(rng.randrange(8 if storm < USUAL else 1000)).graph())
        return {"pipeline": SimpleNamespace(graph=lambda: graph), "dataset": "boxed"}
    name = rng.choice(sorted(DATASETS))
    buckets = {"buckets": rng.choice(BUCKETS)} if name == "fitted" else {}
    return {"pipeline": name, "dataset": DATASETS[name], **buckets}


def stream(rng: random.Random, storm: int) -> dict[str, object]:
    """A random stream, as arguments of Loader."""
    return {
        **pipeline(rng, storm),
        "global_batch_size": rng.randrange(3, 14),
        "seed": rng.randrange(2**64),
        "shuffle": rng.random() < 0.8,
        "last": "drop" if rng.random() < 0.5 else "pad",
        "views": rng.choice((1, 1, 2)),
        "total_epochs": EPOCHS,
    }


def digests(law, datasets: Mapping[str, Path], options: Mapping[str, object]) -> list[str]:
    """The same stream by the interpreter."""
    named = options["pipeline"]
    found = getattr(law_pipelines, named) if isinstance(named, str) else named
    return law.reference(
        datasets[options["dataset"]],
        found.graph(),
        range(EPOCHS),
        options.get("buckets"),
        batch_size=options["global_batch_size"],
        seed=options["seed"],
        order=OrderSpec(shuffle=options["shuffle"]),
        tail=options["last"],
        views=options["views"],
        total_epochs=options["total_epochs"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORMS))
def test_storm(daemon, datasets, law, seed):
    rng = random.Random(seed)
    kills = 0
    with daemon(rng.choice((2, 3)), datasets=datasets) as running:
        while kills < KILLS:
            options = stream(rng, seed)
            ranks = rng.choice((1, 1, 2, 3))
            ranks = min(ranks, options["global_batch_size"])
            expected = digests(law, datasets, options)
            with contextlib.ExitStack() as stack:
                loaders = [
                    stack.enter_context(
                        Loader(
                            running.address,
                            rank=rank,
                            world_size=ranks,
                            prefetch=rng.randrange(1, 6),
                            device="numpy",
                            **options,
                        )
                    )
                    for rank in range(ranks)
                ]
                got = []
                for _ in range(EPOCHS):
                    for cuts in zip(*loaders, strict=True):
                        parts = [digest_parts(cut) for cut in cuts]
                        merged = {
                            name: np.concatenate([part[name] for part in parts])
                            for name in parts[0]
                        }
                        got.append(batch_digest(merged, cuts[0].epoch, cuts[0].step))
                        assert got[-1] == expected[len(got) - 1], (seed, options, len(got))
                        if rng.random() < 0.4:
                            kills += kill_one(rng, running.pid)
            assert got == expected, (seed, options)
