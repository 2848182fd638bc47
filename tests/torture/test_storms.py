"""Storms: workers are killed at random while streams are read; not one byte may differ.

Every storm is decided by its seed: which streams, how many ranks, which prefetch depth, and after
which batches a worker, or the template with all workers, is killed with SIGKILL. There is no clock
in it: the next kill comes when so many batches were delivered. What is delivered is compared with
the interpreter's stream, batch by batch. STOKER_STORMS sets how many storms of 20 kills there are.
"""

import contextlib
import os
import random
import signal
from pathlib import Path

import law_pipelines
import numpy as np
import pytest
from law_rig import children

from stoker.client import Loader
from stoker.protocol.digest import batch_digest
from stoker.protocol.spec import OrderSpec

STORMS = int(os.environ.get("STOKER_STORMS", "10"))
EPOCHS = 3
KILLS = 20
PIPELINES = ("crops", "training", "padded", "evaluation")


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


def stream(rng: random.Random) -> dict[str, object]:
    """A random stream, as arguments of Loader."""
    return {
        "pipeline": rng.choice(PIPELINES),
        "global_batch_size": rng.randrange(3, 14),
        "seed": rng.randrange(2**64),
        "shuffle": rng.random() < 0.8,
        "drop_last": rng.random() < 0.5,
        "views": rng.choice((1, 1, 2)),
    }


def digests(law, dataset: Path, options: dict[str, object]) -> list[str]:
    """The same stream by the interpreter."""
    return law.reference(
        dataset,
        getattr(law_pipelines, options["pipeline"]).graph(),
        range(EPOCHS),
        batch_size=options["global_batch_size"],
        seed=options["seed"],
        order=OrderSpec(shuffle=options["shuffle"]),
        tail="drop" if options["drop_last"] else "pad",
        views=options["views"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(STORMS))
def test_storm(daemon, dataset, law, seed):
    rng = random.Random(seed)
    kills = 0
    with daemon(rng.choice((2, 3))) as running:
        while kills < KILLS:
            options = stream(rng)
            ranks = rng.choice((1, 1, 2, 3))
            ranks = min(ranks, options["global_batch_size"])
            expected = digests(law, dataset, options)
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
                        merged = {
                            name: np.concatenate([cut[name] for cut in cuts]) for name in cuts[0]
                        }
                        got.append(batch_digest(merged, cuts[0].epoch, cuts[0].step))
                        assert got[-1] == expected[len(got) - 1], (seed, options, len(got))
                        if rng.random() < 0.4:
                            kills += kill_one(rng, running.pid)
            assert got == expected, (seed, options)
