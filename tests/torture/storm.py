"""A storm: one daemon, streams that are read from it, and kills of everything around them.

Everything is decided by the seed: the daemon's workers; the streams, with weights, block shuffles
and exclude lists, and with pipelines of the Law's table or random ones, which a client sends as
data; ranks, groups, prefetch, verification; and after which batches something happens. There is no
clock in it: the next event comes when so many batches were delivered. The events:

- a worker, or the template with all workers, gets SIGKILL;
- the daemon gets SIGKILL, at once or while its clients wait, and is started again;
- a worker or the daemon is stopped by SIGSTOP, and goes on a moment later;
- a second training process, which reads the same stream, in the same group or alone, gets SIGKILL;
- the job ends without a word, and one with another number of ranks goes on from its cursor.

The batches of every client are compared with the interpreter's stream, batch by batch.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import law_pipelines
import numpy as np
from daemons import Restarted, children
from random_graphs import Writer

from stoker.client import Buckets, Loader
from stoker.pipeline.graph.graph import Graph
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.spec import OrderSpec

HERE = Path(__file__).parent
EPOCHS = 3
SAMPLES = 37
FREEZE_S = 0.05
PATIENCE_S = 60.0
USUAL = 8
"""Random pipelines whose kernels other tests have compiled."""
BUCKETS = (
    {"max_area": 64 * 64, "divisor": 16},
    {"max_area": 48 * 48, "divisor": 16, "max_side": 64, "leftovers": "merge",
     "constant": "pixels"},
)  # fmt: skip
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


class Job:
    """The ranks of one training, in this process; and the place that they have reached."""

    def __init__(self, address: str, stream: Mapping[str, object], rng: random.Random) -> None:
        ranks = min(rng.choice((1, 1, 2, 3)), stream["global_batch_size"])
        ranks = 1 if "group" in stream else ranks
        self._stack = contextlib.ExitStack()
        self.loaders = [
            self._stack.enter_context(
                Loader(
                    address,
                    rank=rank,
                    world_size=ranks,
                    prefetch=rng.randrange(1, 6),
                    device="numpy",
                    reconnect_s=PATIENCE_S,
                    verify=rng.random() < 0.5 and "group" not in stream,
                    **stream,
                )
            )
            for rank in range(ranks)
        ]
        self._turns = [iter(loader) for loader in self.loaders]

    def resume(self, state: dict) -> None:
        """Go on at a cursor."""
        for loader in self.loaders:
            loader.load_state_dict(state)
        self._turns = [iter(loader) for loader in self.loaders]

    def next(self) -> str | None:
        """Return the digest of the next global batch; None at the end of an epoch."""
        cuts = [next(turn, None) for turn in self._turns]
        if cuts[0] is None:
            assert cuts == [None] * len(cuts), "ranks disagree on the length of an epoch"
            self._turns = [iter(loader) for loader in self.loaders]
            return None
        assert len({(cut.epoch, cut.step) for cut in cuts}) == 1, "ranks disagree on the step"
        parts = [digest_parts(cut) for cut in cuts]
        merged = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return batch_digest(merged, cuts[0].epoch, cuts[0].step)

    def close(self) -> dict:
        """End it; return the cursor of its last rank."""
        states = [loader.state_dict() for loader in self.loaders]
        assert all(state == states[0] for state in states), "a cursor holds no rank"
        self._stack.close()
        return states[0]


class Reader:
    """A second training process; see `reader.py`."""

    def __init__(self, address: str, options: Mapping[str, object], out: Path) -> None:
        self._out, self._errors = out, out.with_suffix(".log")
        with out.open("w") as file, self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "reader.py"), address, json.dumps(options)],
                stdout=file,
                stderr=errors,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def wait_for_a_batch(self) -> None:
        """Wait until it has received a batch."""
        pause, deadline = threading.Event(), time.monotonic() + PATIENCE_S
        while not self._out.read_text():
            assert time.monotonic() < deadline, self._errors.read_text()
            pause.wait(0.01)

    def kill(self) -> None:
        """Kill it, wherever it is."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def received(self, *, patient: bool = False) -> list[str]:
        """Return the digests of what it received, once it has ended."""
        if patient:
            assert self._process.wait(PATIENCE_S) == 0, self._errors.read_text()
        else:
            self._process.wait(PATIENCE_S)
        return self._out.read_text().split("\n")[:-1]


class Storm:
    """One storm; `play` raises an AssertionError that names the seed if a byte differs.

    Attributes:
        kills: processes that got SIGKILL.
        events: how often each event happened.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        served: Restarted,
        datasets: Mapping[str, Path],
        reference: Callable[..., list[str]],
        pipelines: int = USUAL,
    ) -> None:
        """Prepare.

        Args:
            seed: decides everything.
            folder: for the output of readers.
            served: the daemon; it runs.
            datasets: those that it serves.
            reference: `law.reference`.
            pipelines: how many random pipelines there are.
        """
        self.kills = 0
        self.events: dict[str, int] = {}
        self._seed = seed
        self._random = random.Random(seed)
        self._folder = folder
        self._served = served
        self._datasets = datasets
        self._reference = reference
        self._pipelines = pipelines
        self._timers: list[threading.Timer] = []

    def play(self, kills: int) -> None:
        """Read streams until so many processes were killed."""
        while self.kills < kills:
            self._stream()
        for timer in self._timers:
            timer.join()
        self._served.join()

    def _stream(self) -> None:
        """Read one random stream while things happen."""
        rng = self._random
        self._served.join()  # nobody opens a stream at a daemon that does not listen yet
        stream, options = self._draw_stream()
        expected = self._digests(stream)
        with_reader = rng.random() < 0.25
        if with_reader and rng.random() < 0.5:
            group = {"group": f"storm-{self.kills}"}
            stream, options = stream | group, options | group
        where = f"seed {self._seed}, after {self.kills} kills, {_short(options)}"
        reader = None
        if with_reader:
            out = self._folder / f"reader-{self.kills}"
            reader = Reader(self._served.address, options | {"reconnect_s": PATIENCE_S}, out)
        try:
            killed = self._read(stream, expected, reader, where)
            if reader is not None:
                seen = reader.received(patient=not killed)
                assert seen == expected[: len(seen)], f"{where}: a process of its own"
                assert killed or len(seen) == len(expected), where
        finally:
            if reader is not None:
                reader.kill()

    def _read(
        self,
        stream: Mapping[str, object],
        expected: list[str],
        reader: Reader | None,
        where: str,
    ) -> bool:
        """Read all of a stream; return whether the reader was killed meanwhile."""
        job, got, killed = Job(self._served.address, stream, self._random), [], False
        while len(got) < len(expected):
            digest = job.next()
            if digest is None:
                continue
            got.append(digest)
            assert digest == expected[len(got) - 1], f"{where}: batch {len(got) - 1}"
            event = self._draw_event(reader is not None and not killed)
            if event == "resume":
                state = job.close()
                self._served.join()
                job = Job(self._served.address, stream, self._random)
                job.resume(state)
            elif event == "reader":
                killed = True
                self.kills += 1
                reader.kill()
            elif event:
                self._happen(event)
        job.close()
        return killed

    def _draw_event(self, has_reader: bool) -> str:
        event = self._random.choices(
            ("", "worker", "template", "daemon", "freeze", "freeze daemon", "resume", "reader"),
            (35, 50, 2, 3, 3, 1, 3, 3 * has_reader),
        )[0]
        if event:
            self.events[event] = self.events.get(event, 0) + 1
        return event

    def _happen(self, event: str) -> None:
        """Do something to the daemon or its processes."""
        rng, served = self._random, self._served
        served.join()  # it may be starting
        templates = children(served.pid)
        workers = [pid for template in templates for pid in children(template)]
        if event == "daemon":
            self.kills += 1
            (served.in_thread if rng.random() < 0.5 else _at_once)(served.restart)
        elif event == "template" and templates:
            self.kills += _signal(templates[0], signal.SIGKILL)
        elif event == "worker" and workers:
            self.kills += _signal(rng.choice(workers), signal.SIGKILL)
        elif event == "freeze" and workers:
            self._freeze(rng.choice(workers))
        elif event == "freeze daemon":
            self._freeze(served.pid)

    def _freeze(self, pid: int) -> None:
        if _signal(pid, signal.SIGSTOP):
            timer = threading.Timer(FREEZE_S, _signal, (pid, signal.SIGCONT))
            timer.start()
            self._timers.append(timer)

    def _draw_stream(self) -> tuple[dict[str, object], dict[str, object]]:
        """Return arguments of a Loader, and the same as plain data."""
        rng = self._random
        plain = {
            "global_batch_size": rng.randrange(3, 14),
            "seed": rng.randrange(2**64),
            "shuffle": rng.random() < 0.8,
            "last": "drop" if rng.random() < 0.5 else "pad",
            "views": rng.choice((1, 1, 2)),
            "total_epochs": EPOCHS,
        }
        if rng.random() < 0.2:
            plain["exclude"] = rng.sample(range(SAMPLES), 5)
        if rng.random() < 0.2 and plain["shuffle"]:
            plain["shuffle_block_size"] = rng.choice((4, 9))
        if rng.random() < 1 / 3:
            graph = Graph.from_data(Writer(rng.randrange(self._pipelines)).graph())
            plain["dataset"] = "boxed"
            if rng.random() < 0.2:
                plain["weights"] = "weight"
            sent = SimpleNamespace(graph=lambda: graph)
            return plain | {"pipeline": sent}, plain | {"graph": graph.to_data()}
        plain["pipeline"] = rng.choice(sorted(DATASETS))
        plain["dataset"] = DATASETS[plain["pipeline"]]
        if plain["pipeline"] != "fitted":
            if rng.random() < 0.2:
                classes = plain["dataset"] == "photos"
                plain["weights"] = {"day": 1, "night": 2.5} if classes else "weight"
            return plain, plain
        plain.pop("shuffle_block_size", None)
        buckets = rng.choice(BUCKETS)
        return plain | {"buckets": Buckets(**buckets)}, plain | {"buckets": buckets}

    def _digests(self, stream: Mapping[str, object]) -> list[str]:
        """The same stream by the interpreter."""
        named = stream["pipeline"]
        found = getattr(law_pipelines, named) if isinstance(named, str) else named
        return self._reference(
            self._datasets[stream["dataset"]],
            found.graph(),
            range(EPOCHS),
            stream.get("buckets"),
            stream.get("exclude", ()),
            stream.get("weights"),
            batch_size=stream["global_batch_size"],
            seed=stream["seed"],
            order=OrderSpec(shuffle=stream["shuffle"], block=stream.get("shuffle_block_size")),
            tail=stream["last"],
            views=stream["views"],
            total_epochs=stream["total_epochs"],
        )


def _short(options: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if name != "graph"}


def _at_once(action: Callable[[], None]) -> None:
    action()


def _signal(pid: int, number: int) -> bool:
    """Send a signal; False if the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
