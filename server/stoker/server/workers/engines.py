"""The engines of a worker: made once for each pipeline, and used by all its sessions.

Runs in a worker, on its one thread. A second session of the same pipeline gets the engine of the
first, because an engine keeps no state between rows: seed and position come with each row. The key
of an engine is everything that it is made of: the dataset (path and fingerprint), the graph (with
the versions of its ops), and freeze. An edit of the user's file may leave the key unchanged, so
call `forget` after one.

A stream gets an engine of its own if the engine could keep something of another session's rows:
with batch ops, which keep the rows of a group; with functions in Python, whose objects may keep
anything; with schedules; between guard bytes; with buckets.

The others are in an LRU cache of at most `KEPT` engines, which share one arena. A stream keeps its
engine for as long as it is open.
"""

from collections import OrderedDict
from typing import Final

import numpy as np

from stoker.dataset import Dataset
from stoker.pipeline.compiled.executor import Executor, compile_plan
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.engine.interface import Engine, Freeze
from stoker.pipeline.engine.shown_program import Sign
from stoker.pipeline.graph.schedule import FACTS, facts_read
from stoker.pipeline.planning.plan import Plan
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.graphs import graph_from_bytes
from stoker.server.rows.joined_pipelines import own_freeze

KEPT: Final = 8
"""Size of the LRU cache. Each engine has tables; the arena is that of the largest."""
Key = tuple[str, str, bytes, frozenset[tuple[str, int | str]]]


class EngineMaker:
    """Makes the engines of one stream, which share one scratch memory."""

    def __init__(self, freeze: Freeze, *, debug_memory: bool, sign: Sign | None = None) -> None:
        self._freeze = freeze
        self._debug_memory = debug_memory
        self._sign = sign
        self._arena: np.ndarray | None = None

    def __call__(self, plan: Plan) -> Engine:
        """Return the engine of a plan."""
        freeze = own_freeze(self._freeze, plan)
        if self._debug_memory:
            return Guarded(plan, freeze)
        engine = compile_plan(plan, freeze, self._arena, self._sign)
        self._arena = engine.arena
        return engine


class Engines:
    """The engines that a worker keeps.

    Attributes:
        made: how many were made so far.
    """

    def __init__(self, *, debug_memory: bool, sign: Sign | None = None) -> None:
        """Keep nothing yet.

        Args:
            debug_memory: whether kernels run between guard bytes.
            sign: shows the daemon which op an engine runs; None: nothing does.
        """
        self._debug_memory = debug_memory
        self._sign = sign
        self._kept: OrderedDict[Key, Executor] = OrderedDict()
        self._arena: np.ndarray | None = None
        self.made = 0

    def __len__(self) -> int:
        """Engines that are kept."""
        return len(self._kept)

    def forget(self) -> None:
        """Keep no engine; open streams keep their own."""
        self._kept.clear()

    def of(self, path: str, dataset: Dataset, graph: bytes, freeze: Freeze) -> Engine:
        """Return the engine of a stream without buckets.

        Args:
            path: of the dataset.
            dataset: what it reads, open.
            graph: canonical form of the graph of its pipeline.
            freeze: of the stream.

        Raises:
            StokerError: the pipeline does not fit the dataset, or cannot be compiled.
        """
        key = (path, dataset.fingerprint, graph, frozenset(freeze.items()))
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        plan = worker_plan(graph_from_bytes(graph), dataset)
        self.made += 1
        if self._debug_memory or not keeps_nothing(plan):
            maker = EngineMaker(freeze, debug_memory=self._debug_memory, sign=self._sign)
            return maker(plan)
        engine = self._kept[key] = compile_plan(
            plan, own_freeze(freeze, plan), self._arena, self._sign
        )
        self._arena = engine.arena
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return engine


def keeps_nothing(plan: Plan) -> bool:
    """Return whether an engine of a plan keeps nothing of a row that a later row could read."""
    calls = any(decision.op.calls_python for decision in plan.decisions)
    return not (plan.mixes or calls or facts_read(plan.graph).intersection(FACTS))
