"""A rig round one core: events by short calls, instructions sorted by what they concern."""

import importlib
import itertools
from collections.abc import Callable
from types import ModuleType

import msgspec
import pytest
from asking import opening
from decided import of, records

from stoker.protocol.messages import (
    Close,
    Credit,
    DaemonRecord,
    Error,
    Hello,
    Open,
    Opened,
    Ready,
    Release,
    Seek,
    Welcome,
)
from stoker.protocol.slot_layout import Output
from stoker.server.state import core_instructions as ins
from stoker.server.state import events as ev
from stoker.server.state.core import Core
from stoker.server.state.settings import Settings
from stoker.server.work.work_records import BuildResult, BuiltSource, Done, Work

OUTPUTS = (Output("image", "uint8", (4, 4, 3), "image"), Output("label", "int64", ()))
DATASET = "content:" + "ab" * 16
PIPELINE = "cd" * 16
OPEN = {"dataset": "photos", "pipeline": "train", "seed": 7}


def result(build: int, **changes: object) -> BuildResult:
    values = {
        "build": build, "fingerprint": DATASET, "rows": 50, "pipeline_id": PIPELINE,
        "outputs": OUTPUTS,
        "sources": (BuiltSource("/data/photos", DATASET, 50, PIPELINE, b"graph"),),
    }  # fmt: skip
    return BuildResult(**(values | changes))


def _is_known(said: ins.Instruction) -> bool:
    if not isinstance(said, ins.StartBuild):
        return False
    return said.request.known is not None and not said.request.known.code


class Rig:
    """One core with a clock, and all that it said.

    Attributes:
        builds_know: answer a build that has an earlier result with it, unless that has files of
            users, and note no such build: nothing has changed.
    """

    builds_know = True

    def __init__(self, **changes: object) -> None:
        values = {
            "workers": 2,
            "memory_limit_bytes": 2**20,
            "ahead_slot_bytes": 0,
            "datasets": {"photos": "/data/photos"},
            "pipelines": {"train": "jobs:train", "plain": "jobs:plain"},
        }
        self.settings = Settings(**(values | changes))
        self.core = Core(self.settings)
        self.now = 100.0
        self.said: list[ins.Instruction] = []
        self._tokens = itertools.count(1)
        self._claims: dict[int, list[Work]] = {}
        self._taken: list[tuple[bytes, Ready]] = []
        self.note(self.core.start())

    def note(self, said: list[ins.Instruction]) -> list[ins.Instruction]:
        self.said += said
        for one in said:
            if isinstance(one, ins.Assign):
                self._claims.setdefault(one.worker, []).extend(one.work)
        return said

    def do(
        self, kind: Callable[..., ev.Event], *args: object, **named: object
    ) -> list[ins.Instruction]:
        said = self.core.handle(kind(self.now, *args, **named))
        if self.builds_know:
            for build in [one for one in said if _is_known(one)]:
                said.remove(build)
                known = msgspec.structs.replace(build.request.known, build=build.request.build)
                said += self.core.handle(ev.Built(self.now, known))
        return self.note(said)

    def tick(self, seconds: float = 0.5) -> list[ins.Instruction]:
        self.now += seconds
        return self.do(ev.Tick)

    def up(self, *workers: int) -> None:
        for worker in workers:
            self.do(ev.WorkerUp, worker, 1000 + worker)

    def hello(self, attach: bool = True) -> bytes:
        token = next(self._tokens).to_bytes(16, "big")
        said = self.do(ev.Greeted, b"peer", token, Hello(1, 1, "test", b"", "run-17"))
        assert said == [
            ins.SendPeer(b"peer", (Welcome(1, token, said[0].records[0].daemon),), token)
        ]
        if attach:
            self.do(ev.LifelineUp, token)
        return token

    def send(self, token: bytes, *records: object) -> list[ins.Instruction]:
        return self.do(ev.Received, token, tuple(records))

    def open(
        self, token: bytes | None = None, built: dict[str, object] | None = None, **changes: object
    ) -> bytes:
        """Open a stream through all its stages; returns the session's token."""
        token = token or self.hello()
        said = self.send(token, _open(**changes))
        for build in of(said, ins.StartBuild):
            said = self.do(ev.Built, result(build.request.build, **(built or {})))
        for slab in of(said, ins.ReserveSlab):
            self.do(ev.SlabReserved, slab.slab)
        for group in self.core._groups.by_number.values():
            while group.slab.growing is not None and not of(self.sent(token), Opened):
                self.do(ev.SlabReserved, group.number)
        assert of(self.sent(token), Opened), said
        return token

    def grow(self, *, refuse: bool = False) -> list[ins.Instruction]:
        """End the growth of a slab that began last."""
        growth = of(self.said, ins.GrowSlab)[-1]
        if refuse:
            return self.do(ev.SlabRefused, growth.slab, "no memory")
        return self.do(ev.SlabReserved, growth.slab)

    def run(
        self, token: bytes, run: int = 1, epoch: int = 0, step: int = 0, granted: int = 3
    ) -> list[ins.Instruction]:
        return self.send(token, Seek(run, epoch, step), Credit(run, granted))

    def claims(self, worker: int) -> list[Work]:
        """Claims that the worker has not ended, in order."""
        return self._claims.setdefault(worker, [])

    def finish(
        self,
        worker: int,
        seconds: float = 0.01,
        home_rows: int = 0,
        shapes: tuple[tuple[int, ...], ...] = (),
        decodes: int = 0,
    ) -> list[ins.Instruction]:
        """The worker ends its head well."""
        claim = self.claims(worker).pop(0)
        done = Done(claim.claim, seconds, home_rows, shapes=shapes, decodes=decodes)
        return self.do(ev.ChunkDone, worker, done)

    def fail(
        self, worker: int, message: str = "bad sample", code: str = "sample"
    ) -> list[ins.Instruction]:
        claim = self.claims(worker).pop(0)
        return self.do(ev.ChunkFailed, worker, claim.claim, claim.stream, code, message, {"id": 3})

    def die(
        self,
        worker: int,
        blame: bool = False,
        begun: bool = True,
        row: int | None = None,
        sample: int | None = None,
    ) -> list[ins.Instruction]:
        """The worker dies at a row of its head (the first, unless told)."""
        claims, self._claims[worker] = self.claims(worker), []
        head = claims[0] if claims and begun else None
        if head is not None and row is None:
            row = head.row_lo
        return self.do(
            ev.WorkerDown,
            worker,
            "signal 11",
            blame,
            head.claim if head else None,
            row if head else None,
            sample,
        )

    def work(self, workers: tuple[int, ...] = (1, 2), limit: int = 1000) -> None:
        """Let the workers finish all that they have and get."""
        for _ in range(limit):
            busy = [worker for worker in workers if self.claims(worker)]
            if not busy:
                return
            for worker in busy:
                self.finish(worker)
        raise AssertionError("work does not end")

    def sent(self, token: bytes) -> list[DaemonRecord]:
        return records(self.said, token)

    def ready(self, token: bytes) -> list[Ready]:
        return of(self.sent(token), Ready)

    def errors(self, token: bytes) -> list[Error]:
        return of(self.sent(token), Error)

    def release(self, token: bytes, *batches: Ready) -> list[ins.Instruction]:
        return self.send(token, Release([(batch.slot, batch.generation) for batch in batches]))

    def take(self, token: bytes, run: int = 1) -> list[ins.Instruction]:
        """A member releases the oldest batch that it has not taken, and grants a credit for it."""
        ready = next(one for one in self.ready(token) if (token, one) not in self._taken)
        self._taken.append((token, ready))
        return self.send(token, Release([(ready.slot, ready.generation)]), Credit(run, 1))

    def end(self, token: bytes, way: str = "close") -> list[ins.Instruction]:
        if way == "close":
            return self.send(token, Close())
        return self.do(ev.LifelineDown, token)

    def counters(self) -> dict[str, int | float]:
        return self.core.counters()


def _open(**changes: object) -> Open:
    return opening(**(OPEN | changes))


@pytest.fixture
def make_rig() -> Callable[..., Rig]:
    return Rig


@pytest.fixture
def rig() -> Rig:
    """Two workers that are up."""
    rig = Rig()
    rig.up(1, 2)
    return rig


@pytest.fixture
def make_open() -> Callable[..., Open]:
    return _open


@pytest.fixture
def make_result() -> Callable[..., BuildResult]:
    return result


@pytest.fixture(scope="session")
def simulation() -> ModuleType:
    """The module `simulation.py` next to this file."""
    return importlib.import_module("simulation")
