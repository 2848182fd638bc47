"""The trainings of a storm: one, or several of a group, in this process; and a second process."""

import contextlib
import json
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from loading import grouped
from reader import batch_parts, loader_options
from streams import Stream
from warm import Script

from stoker.client import Connection, Loader
from stoker.protocol.digest import batch_digest

HERE = Path(__file__).parent
PATIENCE_S = 60.0
LEADS = (1, 3, 12)
"""Batches that a member of a group may be ahead of the last one."""


class Training:
    """One training: its ranks, in this process, and the place that it has reached.

    Attributes:
        stream: what it reads.
        count: how many global batches it has read.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.count = 0
        self._loaders: list[Loader] = []
        self._stack = contextlib.ExitStack()
        self._turns: list = []

    @property
    def is_done(self) -> bool:
        """True if it has read all batches."""
        return self.count == len(self.stream.expected)

    def open(
        self,
        where: str | Sequence[str],
        ranks: int,
        rng: random.Random,
        state: dict | None,
        **more: object,
    ) -> None:
        """Begin, or go on at a cursor, with that number of ranks."""
        given = loader_options(self.stream.data) | more
        with contextlib.ExitStack() as stack:  # closes the first ranks if a later one fails
            self._loaders = [
                stack.enter_context(
                    Loader(
                        where,
                        **grouped(
                            rank=rank,
                            world_size=ranks,
                            prefetch=rng.randrange(1, 6),
                            device="numpy",
                            connection=Connection(reconnect_s=PATIENCE_S),
                            **{"verify": rng.random() < 0.5, **given},
                        ),
                    )
                )
                for rank in range(ranks)
            ]
            self._stack = stack.pop_all()
        for loader in self._loaders:
            if state is not None:
                loader.load_state_dict(state)
        self._begin()

    def move(self, hosts: Sequence[str]) -> None:
        """Use these daemons from the next batch on."""
        for loader in self._loaders:
            loader.set_hosts(hosts)

    def read(self) -> None:
        """Read the next global batch, and compare it."""
        while (digest := self._next()) is None:
            self._begin()
        assert digest == self.stream.expected[self.count], f"batch {self.count} differs"
        self.count += 1

    def finish(self) -> dict:
        """End it in good order; return the cursor of its ranks."""
        states = [loader.state_dict() for loader in self._loaders]
        assert all(state == states[0] for state in states), "a cursor holds no rank"
        self.close()
        return states[0]

    def close(self) -> None:
        """Close its loaders."""
        self._turns = []
        self._stack.close()

    def _begin(self) -> None:
        self._turns = [iter(loader) for loader in self._loaders]

    def _next(self) -> str | None:
        """Return the digest of the next global batch; None at the end of an epoch."""
        cuts = [next(turn, None) for turn in self._turns]
        if cuts[0] is None:
            assert cuts == [None] * len(cuts), "ranks disagree on the length of an epoch"
            return None
        assert len({(cut.epoch, cut.step) for cut in cuts}) == 1, "ranks disagree on the step"
        parts = [batch_parts(cut, self.stream.data) for cut in cuts]
        merged = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return batch_digest(merged, cuts[0].epoch, cuts[0].step)


class Job:
    """A training, or those of a group, in turns that are drawn; they have equally many ranks.

    With `mode` they are a group of that mode. It has another name for each number of ranks, which
    its members must have in common.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        mode: str | None,
        group: str,
        most_ranks: int,
        *,
        complete: bool,
    ) -> None:
        """Prepare; `complete`: no other process is a member, so the group's size is known."""
        self._trainings = [Training(stream) for stream in streams]
        self._mode, self._group = mode, group
        self._lead = 1
        self._waits, self._complete = False, complete
        given = streams[0].data
        most_ranks = 1 if given["last"] == "short" else most_ranks
        self._most_ranks = min(most_ranks, given["global_batch_size"])

    def open(
        self,
        where: str | Sequence[str],
        rng: random.Random,
        states: Sequence[dict | None] | None = None,
        **more: object,
    ) -> None:
        """Begin, or go on at cursors, with a number of ranks that is drawn."""
        ranks = min(rng.choice((1, 1, 2, 3)), self._most_ranks)
        left = [training for training in self._trainings if not training.is_done]
        self._waits = self._mode is not None and self._complete and rng.random() < 0.5
        if self._mode is not None:
            more |= group_options(self._mode, self._group, ranks)
            if self._waits:
                more["group_size"] = len(left)
        self._lead = rng.choice(LEADS)
        for number, training in enumerate(self._trainings):
            training.open(where, ranks, rng, states[number] if states else None, **more)

    def move(self, hosts: Sequence[str]) -> None:
        """Use these daemons from the next batch on."""
        for training in self._trainings:
            training.move(hosts)

    def read(self, rng: random.Random) -> bool:
        """Let one training read a batch, one of those that are not too far ahead.

        Members of a group that wait for each other read their first batch at the same time.

        Returns:
            False if all have read all.
        """
        left = [training for training in self._trainings if not training.is_done]
        if left and self._waits:
            self._waits = False
            with ThreadPoolExecutor(len(left)) as threads:
                list(threads.map(Training.read, left))
        elif left:
            last = min(training.count for training in left)
            near = [training for training in left if training.count < last + self._lead]
            rng.choice(near).read()
        return bool(left)

    def finish(self) -> list[dict]:
        """End all in good order; return their cursors."""
        return [training.finish() for training in self._trainings]

    def close(self) -> None:
        """Close all loaders."""
        for training in self._trainings:
            training.close()


def group_options(mode: str, name: str, ranks: int) -> dict[str, object]:
    """Return the arguments of a group's member."""
    return {"mode": mode, "group": f"{name} of {ranks}"}


class Reader:
    """A second training process; see `reader.py`."""

    def __init__(
        self, where: str | Sequence[str], options: Mapping[str, object], out: Path
    ) -> None:
        self._out, self._errors = out, out.with_suffix(".log")
        with out.open("w") as file, self._errors.open("w") as errors:
            words = HERE / "reader.py", json.dumps(where), json.dumps(options)
            self._process = Script(*words, stdout=file, stderr=errors)

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
            code = self._process.wait(PATIENCE_S)
            assert code == 0, f"it ended with {code}: {self._errors.read_text()}"
        else:
            self._process.wait(PATIENCE_S)
        return self._out.read_text().split("\n")[:-1]
