"""The trainings of a storm: ranks in this process, and a second process."""

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from stoker.client import Loader
from stoker.protocol.digest import batch_digest, digest_parts

HERE = Path(__file__).parent
PATIENCE_S = 60.0


class Job:
    """The ranks of one training, in this process; and the place that they have reached."""

    def __init__(
        self, where: str | Sequence[str], stream: Mapping[str, object], rng: random.Random
    ) -> None:
        ranks = min(rng.choice((1, 1, 2, 3)), stream["global_batch_size"])
        ranks = 1 if "group" in stream else ranks
        with contextlib.ExitStack() as stack:  # closes the first ranks if a later one fails
            self.loaders = [
                stack.enter_context(
                    Loader(
                        where,
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
            self._stack = stack.pop_all()
        self._turns = [iter(loader) for loader in self.loaders]

    def resume(self, state: dict) -> None:
        """Go on at a cursor."""
        for loader in self.loaders:
            loader.load_state_dict(state)
        self._turns = [iter(loader) for loader in self.loaders]

    def move(self, hosts: Sequence[str]) -> None:
        """Use these daemons from the next batch on."""
        for loader in self.loaders:
            loader.set_hosts(hosts)

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

    def finish(self) -> dict:
        """End it in good order; return the cursor of its last rank."""
        states = [loader.state_dict() for loader in self.loaders]
        assert all(state == states[0] for state in states), "a cursor holds no rank"
        self.close()
        return states[0]

    def close(self) -> None:
        """Close its loaders."""
        self._turns = []
        self._stack.close()


class Reader:
    """A second training process; see `reader.py`."""

    def __init__(
        self, where: str | Sequence[str], options: Mapping[str, object], out: Path
    ) -> None:
        self._out, self._errors = out, out.with_suffix(".log")
        with out.open("w") as file, self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "reader.py"), json.dumps(where), json.dumps(options)],
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
