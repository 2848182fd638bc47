"""Memory planning: where every value is stored, and how much an engine needs besides its slots.

A value that an op makes is stored in a *region*: bytes of the scratch arena, or the row of an
output. Regions live from the step that first writes them to the last step that reads them, through
every alias (a join is an alias of the values that its branches return). Regions that live at
different times share bytes; offsets are multiples of 64. A kernel that may run in place shares the
region of its source if no step reads the source later. If the last reader of a region is an
output, the region is the output's row, so the final op writes the slot itself and nothing is
copied; other outputs are copied by their `StoreStep`.

Steps are numbered in the order of writing, `then` before `else`. Values of the two blocks of one
`if` never exist at the same time, so they share bytes, even if they are read after the `if`: a
choice of fifty transforms needs the memory of one. Inputs are never written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.ops.bases.batch_op import GROUP
from stoker.ops.contract.kernel_forms import same_size
from stoker.pipeline.planning.bound_graph import BoundGraph
from stoker.pipeline.planning.plan import Location, Plan
from stoker.pipeline.planning.steps import (
    ApplyStep,
    KernelStep,
    Maker,
    OpStep,
    Path,
    Step,
    StoreStep,
    walk,
)
from stoker.protocol.slot_layout import ALIGN


@dataclass
class Region:
    """Bytes that hold one value, or several one after the other; times are step numbers.

    `path` is the block of the first write: the branches taken on the way there.
    """

    size: int
    birth: int
    death: int
    path: Path
    values: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class ArenaLayout:
    """The result: see `Plan` for the fields."""

    steps: tuple[Step, ...]
    places: dict[int, Location]
    scratch: dict[int, int]
    arena_bytes: int


@dataclass(frozen=True)
class _Event:
    time: int
    path: Path
    step: Step


def lay_out(bound: BoundGraph) -> ArenaLayout:
    """Give every value its place and remove the stores that are no longer needed."""
    return _Planner(bound).lay_out()


class _Planner:
    def __init__(self, bound: BoundGraph) -> None:
        self.bound = bound
        self.events = [
            _Event(time, path, step) for time, (step, path) in enumerate(walk(bound.steps))
        ]
        self.roots: dict[int, frozenset[int]] = {}
        self.last: dict[int, int] = {}
        self.regions: dict[int, Region] = {}
        self.places = {
            value: Location("input", index) for index, value in enumerate(bound.fields.values())
        }

    def lay_out(self) -> ArenaLayout:
        for event in self.events:
            self.trace_roots(event)
        for event in self.events:
            for value in event.step.reads:
                for root in self.roots.get(value, ()):
                    self.last[root] = event.time
        for event in self.events:
            self.region(event)
        stored = self.place_outputs()
        scratch, arena_bytes = self.place_arena()
        for value in self.bound.states:
            kind = "register" if value in self.bound.registers else "join"
            self.places.setdefault(value, Location(kind))
        steps = tuple(step for step in self.bound.steps if step not in stored)
        return ArenaLayout(steps, self.places, scratch, arena_bytes)

    def trace_roots(self, event: _Event) -> None:
        step = event.step
        if isinstance(step, Maker) and step.in_memory and step.dst not in self.bound.registers:
            self.roots[step.dst] = frozenset((step.dst,))
            self.last[step.dst] = event.time
        for join in step.joins:
            none: frozenset[int] = frozenset()
            sides = (self.roots.get(join.then, none), self.roots.get(join.orelse, none))
            self.roots[join.dst] = sides[0] | sides[1]

    def region(self, event: _Event) -> None:
        step = event.step
        if not (isinstance(step, Maker) and step.in_memory and step.dst in self.roots):
            return
        death = self.last[step.dst]
        if isinstance(step, ApplyStep):
            shared = self.in_place(step, event.time)
            if shared is not None:
                shared.death = max(shared.death, death)
                shared.values.append(step.dst)
                self.regions[step.dst] = shared
                return
        size = self.bound.states[step.dst].bound_bytes
        self.regions[step.dst] = Region(size, event.time, death, event.path, [step.dst])

    def in_place(self, step: ApplyStep, time: int) -> Region | None:
        """Return the region that a step may write while it reads it, if any."""
        states, roots = self.bound.states, self.roots.get(step.src, frozenset())
        if not step.kernel.in_place or len(roots) != 1 or self._is_input_alias(step.src):
            return None
        (root,) = roots
        src, dst = states[step.src], states[step.dst]
        same = src.dtype == dst.dtype and src.shape == dst.shape and src.bound == dst.bound
        keeps = step.decision.op.out_size is same_size or dst.is_fixed
        return self.regions[root] if same and keeps and self.last[root] == time else None

    def _is_input_alias(self, value: int) -> bool:
        """Return whether a value may be an input: a join where not every branch made the value."""
        pending, seen = [value], set()
        while pending:
            current = pending.pop()
            if current in self.places:
                return True
            if current in seen:
                continue
            seen.add(current)
            for event in self.events:
                for join in event.step.joins:
                    if join.dst == current:
                        pending += (join.then, join.orelse)
        return False

    def place_outputs(self) -> set[Step]:
        made = {e.step.dst for e in self.events if isinstance(e.step, KernelStep) and not e.path}
        stored: set[Step] = set()
        taken: set[int] = set()
        for step in self.bound.steps:
            if not isinstance(step, StoreStep) or step.src not in made:
                continue
            region = self.regions[step.src]
            if id(region) in taken or not made.issuperset(region.values):
                continue
            taken.add(id(region))
            stored.add(step)
            for value in region.values:
                self.places[value] = Location("output", step.output)
        return stored

    def place_arena(self) -> tuple[dict[int, int], int]:
        regions = {id(r): r for v, r in self.regions.items() if v not in self.places}
        wanted = [*regions.values()]
        needs: dict[int, Region] = {}
        for event in self.events:
            step = event.step
            if isinstance(step, OpStep) and step.scratch_bytes:
                needs[step.dst] = Region(step.scratch_bytes, event.time, event.time, event.path)
        wanted += needs.values()
        offsets, size = _pack(wanted)
        for region in regions.values():
            for value in region.values:
                self.places[value] = Location("arena", offsets[id(region)])
        return {value: offsets[id(region)] for value, region in needs.items()}, size


def _pack(regions: list[Region]) -> tuple[dict[int, int], int]:
    """First fit in the order of birth; returns id(region) -> offset, and the arena's size."""
    offsets: dict[int, int] = {}
    placed: list[tuple[int, int, Region]] = []
    size = 0
    for region in sorted(regions, key=lambda r: (r.birth, -r.size)):
        alive = sorted(
            (start, end)
            for start, end, other in placed
            if other.birth <= region.death
            and region.birth <= other.death
            and not _exclude_each_other(other.path, region.path)
        )
        offset = 0
        length = -(-max(region.size, 1) // ALIGN) * ALIGN
        for start, end in alive:
            if offset + length <= start:
                break
            offset = max(offset, end)
        placed.append((offset, offset + length, region))
        offsets[id(region)] = offset
        size = max(size, offset + length)
    return offsets, size


def _exclude_each_other(one: Path, other: Path) -> bool:
    """Return whether two blocks are in different branches of one `if`: only one of them runs."""
    for branch, other_branch in zip(one, other, strict=False):
        if branch.choice != other_branch.choice:
            return False
        if branch.side != other_branch.side:
            return True
    return False


class Working(NamedTuple):
    """The memory of one engine.

    Attributes:
        size_bytes: its arena, and with batch ops the rows that it keeps.
        most_bytes: what the step with the most needs of it.
        most: that step, as `op (file:line)`; empty if no step needs any.
    """

    size_bytes: int
    most_bytes: int
    most: str


def working_memory(plan: Plan) -> Working:
    """Return the memory that an engine of a plan needs for values between its steps."""
    kept = 0
    if plan.mixes:
        row = sum(output.row_bytes for output in plan.outputs)
        kept = (GROUP + 1) * row
    most_bytes, most = 0, ""
    for step, _ in walk(plan.steps):
        if not isinstance(step, OpStep):
            continue
        size = step.scratch_bytes
        if plan.places[step.dst].kind == "arena":
            size += plan.states[step.dst].bound_bytes
        if size > most_bytes:
            most_bytes, most = size, f"{step.decision.op.name} ({step.site})"
    if kept > most_bytes:
        most_bytes, most = (
            kept,
            f"{plan.mixes[0].decision.op.name}, which mixes groups of {GROUP} rows",
        )
    return Working(plan.arena_bytes + kept, most_bytes, most)
