"""Draws and applications of ops: states declared, decisions made, kernels chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stoker.ops.bases.batch_op import BatchOp
from stoker.ops.contract.kernel_forms import same_size
from stoker.ops.contract.op import Op
from stoker.ops.contract.registry import make
from stoker.ops.contract.relative import keep_record
from stoker.ops.contract.states import IMAGE_KINDS, ITEM_KINDS, VECTORS, State
from stoker.ops.contract.vector_fields import as_image, unfilled
from stoker.ops.custom.purity import check_purity
from stoker.pipeline.graph.expressions import widened
from stoker.pipeline.graph.nodes import Apply, Draw
from stoker.pipeline.graph.schedule import FIRST, Formulas
from stoker.pipeline.planning.binding.known_sizes import KnownSizes
from stoker.pipeline.planning.binding.relative_decisions import refusal
from stoker.pipeline.planning.binding.scaled_inputs import ScaledInputs
from stoker.pipeline.planning.bound_graph import FIXERS, BoundGraph
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.mixes import Mixes
from stoker.pipeline.planning.op_declarations import check_class, declared, declared_items
from stoker.pipeline.planning.row_parameters import (
    PRESENT,
    Presence,
    RowParameter,
    check_trials,
    row_parameters,
    settled,
)
from stoker.pipeline.planning.steps import (
    ApplyStep,
    ConvertStep,
    DrawStep,
    FoldStep,
    ItemsStep,
    ParameterStep,
    RescaleStep,
    Step,
    VectorsStep,
)
from stoker.pipeline.planning.value_scales import scaled
from stoker.protocol.errors import VersionError


class OpBinder:
    """Binds draws and ops.

    Attributes:
        mixing: what batch ops do.
        draws: number of a draw -> its decision.
        scaled: the inputs that are decoded at a fraction.
    """

    def __init__(self, bound: BoundGraph, sizes: KnownSizes, mixing: Mixes) -> None:
        self.bound = bound
        self.sizes = sizes
        self.mixing = mixing
        self.draws: dict[int, Decision] = {}
        self.named: dict[int, Op] = {}
        self.formulas = Formulas(bound.graph)
        self.presence = Presence(bound.graph, bound.given, self.formulas)
        self.written: dict[int, list[ParameterStep]] = {}
        self.scaled = ScaledInputs(bound)

    def draw(self, node: Draw, value: int, steps: list[Step]) -> None:
        """Bind a draw: its op, its schedule, and what it looks at."""
        site = self.bound.graph.site(value)
        of_rows = self.bound.within(value, node.op, lambda: row_parameters(node, self.formulas))
        node = settled(node, of_rows)
        schedule = self.formulas.schedule(node)
        params = schedule.at(FIRST) if schedule else node.params
        op = self.bound.within(value, node.op, lambda: make(node.op, params, node.version))
        self.bound.within(value, op.name, lambda: check_class(type(op)))
        self.bound.within(value, op.name, lambda: check_purity(type(op)))
        if op.version != node.version:
            raise VersionError(
                f"{site}: {node.op}: the pipeline was made for version {node.version}, this is "
                f"version {op.version}. Use the same version of Stoker on both sides; a saved "
                "pipeline runs only with its own version; make it again to get a new stream",
                op=node.op,
            )
        if node.of:
            self.named[value] = op
            first = self.bound.states[node.of[0]]
            op = self.bound.within(value, op.name, lambda: self.named[value].for_state(first))
        of = node.of[0] if node.of else None
        if isinstance(op, BatchOp):
            of = None  # it draws without a size; an array in CHW would give another size
        else:
            self.unmixed(node.of, value)
        if op.random and node.stream is None:
            self.bound.fail(value, f"{op.name} is random and needs a stream name", op=op.name)
        items = self._looked_at(op, node, value) if op.draws_from else None
        decision = Decision(
            len(self.bound.decisions), op, node.stream, of, site, schedule, node.shared, items,
            row_parameters=of_rows,
        )  # fmt: skip
        if of is not None and items is not None:
            by_mask = op.draws_from == "mask"
            if by_mask:
                self.sizes.same_size(decision, items, value, steps)
            else:
                self.sizes.same_frame(decision, of, items, steps)
        self.bound.decisions.append(decision)
        self.draws[value] = decision
        self.written[decision.index] = [self._row_value(decision, one, value) for one in of_rows]
        steps += self.written[decision.index]
        steps.append(DrawStep(decision))

    def _row_value(self, decision: Decision, given: RowParameter, value: int) -> ParameterStep:
        """Bind a parameter that each row writes."""
        op, number = decision.op, given.value
        what = f"{op.name}: parameter {given.name!r}"
        self.unmixed((number,), value)
        state, rule = self.bound.states[number], given.rule
        kind = "" if state.shape else self.bound.within(value, what, lambda: widened(state.dtype))
        if not kind or (rule.whole and kind == "float64"):
            remedy = f". {self._rounded(number)}" if kind else ""
            self.bound.fail(
                value,
                f"{what}: expected {rule.expected} of each sample, got {state}{remedy}",
                op=op.name,
            )
        fields = [name for name, field in self.bound.fields.items() if field == number]
        what = f"{what} is {self.bound.named(number)}"
        kind = "integer" if rule.whole else "number"
        field = fields[0] if fields else None
        check = self.bound.check(kind, f"{what}: expected {rule.expected}", value, field)
        companions = self.presence.of[number]
        present, absent = tuple(self.bound.fields[name] for name in companions), 0
        if companions:
            lacks = " or ".join(repr(name.removesuffix(PRESENT)) for name in companions)
            remedy = f"call the op where the sample has it, under `if sample.{companions[0]}:`"
            absent = self.bound.check(
                "absent", f"{what}, but the sample has no {lacks}: {remedy}", value, field
            )
        return ParameterStep(decision, given, check, present, absent)

    def _rounded(self, number: int) -> str:
        """Return how a pipeline makes an integer of a float that an integer parameter gets."""
        names = [name for name, field in self.bound.fields.items() if field == number]
        given = f"sample.{names[0]}" if names else "value"
        return (
            "Round it in a function that returns int32: "
            f"ops.python(function, {given}, dtype='int32', randomness='none')"
        )

    def _looked_at(self, op: Op, node: Draw, value: int) -> int:
        """Return the boxes or keypoints that a decision reads, or its first mask."""
        kind, states = op.draws_from, self.bound.states
        found = [v for v in node.of if states[v].kind == kind]
        few = bool(found) if kind == "mask" else len(found) == 1
        if not few or states[node.of[0]].kind not in IMAGE_KINDS:
            got = ", ".join(str(states[v]) for v in node.of) or "nothing"
            some = "a mask" if kind == "mask" else kind
            self.bound.fail(
                value,
                f"{op.name} decides from {some}: call it with an image or mask first, and with "
                f"{'a mask' if kind == 'mask' else f'one value of {kind}'}, as in "
                f"{op.name}(image, {kind}); got {got}",
                op=op.name,
            )
        self.bound.within(value, op.name, lambda: op.require_looked_at(states[found[0]]))
        return found[0]

    def apply(self, node: Apply, value: int, steps: list[Step]) -> None:
        """Bind the application of a decision to one value, or of a fold to several."""
        decision = self.draws[node.draw]
        self.bound.made_by[value] = decision.op.name
        op, states = decision.op, tuple(self.bound.states[src] for src in node.to)
        self._check_form(node, op, value)
        if isinstance(op, BatchOp):
            self._mix(op, decision, node.to[0], value)
            return
        self.unmixed(node.to, value)
        kind = as_image(states[0]).kind
        if kind in ITEM_KINDS and not op.folds:
            self._same_names(node, states[0], value)
            self._apply_items(decision, node.to[0], value, steps)
            return
        op = self._unfilled(decision, states[0], value)
        result, scratch = self._declared(op, states, value, decision.row_parameters)
        srcs = tuple(self.in_memory(src, steps) for src in node.to)
        for src in srcs:
            if not node.relative:
                self.sizes.same_size(decision, src, value, steps)
            if node.relative or op is not decision.op:
                decision = self._carried(decision, op, src, value, steps)
        check = None
        if not result.is_fixed:
            check = self.bound.check("out_size", f"{op.name} on {states[0]}", value)
        self.bound.states[value] = result
        self.sizes.of[value] = self.sizes.out_size(decision, srcs[0])
        site, dtype = self.bound.graph.site(value), states[0].dtype
        if op.folds:
            steps.append(FoldStep(decision, kind, srcs, value, scratch, check, site, dtype))
            return
        made = self._unturned(op, value) if states[0].kind in VECTORS else value
        src = srcs[0]
        if op.decodes_scaled and states[0].kind == "image":
            src = self.scaled.take(decision, src, states[0], value)
        steps.append(ApplyStep(decision, kind, src, made, scratch, check, site, dtype))
        if made != value:
            steps.append(VectorsStep(decision, result.kind, made, value, srcs[0], site))

    def _check_form(self, node: Apply, op: Op, value: int) -> None:
        """Refuse what an op cannot merge, or cannot merge with `relative=True`."""
        if node.relative and (op.folds or isinstance(op, BatchOp)):
            self.bound.fail(
                value,
                f"{op.name} makes one value of several, which must have one size: remove "
                "relative=True, and resize them first",
                op=op.name,
            )
        if len(node.to) > 1 and not op.folds and not isinstance(op, BatchOp):
            self.bound.fail(
                value,
                f"{op.name} takes one value per result; it cannot merge {len(node.to)} values into "
                "one",
                op=op.name,
            )

    def _same_names(self, node: Apply, state: State, value: int) -> None:
        """Refuse a field whose names mean other numbers than those of the decision."""
        op, decided = self.named.get(node.draw), self.draws[node.draw].op
        if op is None or self.bound.within(value, op.name, lambda: op.for_state(state)) == decided:
            return
        self.bound.fail(
            value,
            f"{op.name}: the fields of this call have other names of classes: give the numbers "
            f"instead, here {decided.params_data()}",
            op=op.name,
        )

    def _mix(self, op: BatchOp, decision: Decision, src: int, value: int) -> None:
        state = self.bound.states[src]
        self.bound.states[value] = self.bound.within(
            value, f"{op.name} on {state}", lambda: scaled(op, state, op.mixed(state))
        )
        self.mixing.add(decision, src, value, state)

    def unmixed(self, values: Sequence[int], by: int) -> None:
        """Refuse values that a batch op made: they do not exist while a row is computed."""
        for value in values:
            if value in self.mixing.roots:
                made = self.mixing.last(value)
                self.bound.fail(
                    by,
                    f"this reads the result of {made.op.name} (at {made.site}), made from other "
                    "rows: only outputs and other batch ops may follow a batch op. Move this before"
                    " it",
                    op=made.op.name,
                )

    def _apply_items(self, decision: Decision, src: int, value: int, steps: list[Step]) -> None:
        op, state, of = decision.op, self.bound.states[src], decision.of
        self.bound.states[value] = self.bound.within(
            value, f"{op.name} on {state}", lambda: declared_items(op, state)
        )
        frame = of if of is not None and self.bound.states[of].kind in IMAGE_KINDS else None
        if frame is not None:
            self.sizes.same_frame(decision, frame, src, steps)
        elif state.kind not in op.items:
            self.bound.fail(
                value,
                f"{op.name} moves {state.kind} along with an image: call it with both, the image "
                f"first, as in {op.name}(image, {state.kind}), or call the same instance with the "
                "image before",
                op=op.name,
            )
        self.sizes.of[value] = self.sizes.out_size(decision, src)
        check = self.bound.check("items", f"{op.name} on {state}", value)
        site = self.bound.graph.site(value)
        steps.append(ItemsStep(decision, state.kind, src, value, frame, check, site))

    def _declared(
        self, op: Op, given: tuple[State, ...], value: int, of_rows: tuple[RowParameter, ...]
    ) -> tuple[State, int]:
        on = " and ".join(dict.fromkeys(map(str, given)))
        if any(None in state.shape[2:] for state in given):
            self.bound.fail(
                value,
                f"{op.name} on {on}: a value that joins branches of other shapes can only be "
                "delivered, by outputs.as_list: call the op inside the branches",
                op=op.name,
            )
        state, scratch = self.bound.within(value, f"{op.name} on {on}", lambda: declared(op, given))
        state = self.bound.within(value, op.name, lambda: scaled(op, given[0], state))
        if of_rows:
            of_op = self.bound.within(
                value, op.name, lambda: check_trials(op, of_rows, given, state)
            )
            scratch = max(scratch, of_op)
        state = replace(state, shortest=_shortest(op, given[0], state))
        if any(side is None for side in state.shape[2:]):
            self.bound.fail(
                value,
                f"{op.name} would give {state} for {on}: only the first two sides may "
                f"differ from sample to sample; fix the size before it with {FIXERS}",
                op=op.name,
            )
        if not _keeps_sides(op, given[0], state):
            self.bound.fail(
                value,
                f"{op.name} would give {state} for {on}: other sides would differ from sample to "
                f"sample than before; fix the size before it with {FIXERS}, or, if the op is your "
                "own, give it an out_size",
                op=op.name,
            )
        return state, scratch

    def _unturned(self, op: Op, value: int) -> int:
        """Return a new value like that of a vector field, for its components before they turn."""
        if type(op).forward is None:
            return value
        made = self.bound.new_value(value)
        self.bound.states[made], self.sizes.of[made] = (
            self.bound.states[value],
            self.sizes.of[value],
        )
        return made

    def _unfilled(self, decision: Decision, state: State, value: int) -> Op:
        """Return the op of a decision as it treats a state: its fill is 0 for a vector field."""
        op = unfilled(decision.op) if state.kind in VECTORS else decision.op
        if op is not decision.op and decision.schedule is not None:
            self.bound.fail(
                value,
                f"{op.name} follows a schedule, so its fill cannot be 0 for {op.name} of a vector "
                "field and another number for the rest: give fill=0, or a constant for what follows"
                " the schedule",
                op=op.name,
            )
        return op

    def _carried(
        self, decision: Decision, op: Op, src: int, value: int, steps: list[Step]
    ) -> Decision:
        """Return the decision for a value that may differ in size, scaled to the value's sides.

        A value that is known to have the size of the decision follows the decision itself, unless
        its op has other parameters.
        """
        of = self.sizes.unlike(decision, src)
        if of is None or op.rescale is keep_record:
            of = None
            if op is decision.op:
                return decision
        made = replace(
            decision,
            op=op,
            index=len(self.bound.decisions),
            stream=None,
            of=src,
            items=None,
            source=decision,
        )
        first = src if of is None else of
        what = f"{op.name} on {self.bound.named(first)} and {self.bound.named(src)}"
        why = None if of is None else refusal(made, self.bound.states)
        if of is not None and why is not None:
            states = f"{self.bound.states[of]} and {self.bound.states[src]}"
            self.bound.fail(value, f"{what}, {states}: {why}", op=op.name)
        self.bound.decisions.append(made)
        steps += [replace(step, decision=made) for step in self._written_for(decision)]
        steps.append(RescaleStep(made, self.bound.check("ratio", what, value)))
        return made

    def _written_for(self, decision: Decision) -> list[ParameterStep]:
        """Return the steps that write the parameters of the decision that is carried over."""
        return self.written.get((decision.source or decision).index, [])

    def convert_by(self, op: Op, src: int, state: State, by: int, steps: list[Step]) -> int:
        """Append an op without draws that no line of the user calls; return its result.

        Args:
            op: the op.
            src: an image, or an array that is one.
            state: of the result.
            by: the value on whose behalf.
            steps: where to append it.
        """
        site, dst, given = self.bound.site(by), self.bound.new_value(src), self.bound.states[src]
        decision = Decision(len(self.bound.decisions), op, None, None, site)
        self.bound.decisions.append(decision)
        self.bound.states[dst] = state
        self.sizes.of[dst] = self.sizes.out_size(decision, src)
        check = None
        if not state.is_fixed:
            check = self.bound.check("out_size", f"{op.name} on {given}", by)
        need = op.declare((given,))[1] if given.kind in op.kernels else 0
        kind = given.kind if given.kind in op.kernels else "image"
        steps.append(DrawStep(decision))
        steps.append(ApplyStep(decision, kind, src, dst, need, check, site, given.dtype))
        return dst

    def in_memory(self, value: int, steps: list[Step]) -> int:
        """Return a value that kernels can take: for a value in a register, a copy in memory."""
        if value not in self.bound.registers:
            return value
        return self.convert(value, self.bound.states[value], steps, register=False)

    def convert(self, src: int, state: State, steps: list[Step], *, register: bool) -> int:
        """Append a copy of a value with the dtype and rank of a state; it keeps its own sides."""
        own, dst = self.bound.states[src], self.bound.new_value(src)
        extra = (1,) * (len(state.shape) - len(own.shape))
        self.bound.states[dst] = State(
            state.kind, state.dtype, (*own.shape, *extra), (*own.bound, *extra)
        )
        self.sizes.of[dst] = self.sizes.size(src)
        if register:
            self.bound.registers.add(dst)
        steps.append(ConvertStep(src, dst))
        return dst


def _keeps_sides(op: Op, given: State, result: State) -> bool:
    """Return whether an op without `out_size`, which keeps varying sides, can give this result."""
    if result.is_fixed or type(op).out_size is not same_size:
        return True
    sides = zip((*given.shape, 1, 1), result.shape[:2], strict=False)
    return all(side is None or side == before for before, side in sides)


def _shortest(op: Op, given: State, result: State) -> int:
    """Return a length that no side of a result is below; 0 if the op may change the size."""
    keeps = type(op).out_size is same_size and result.shape[:2] == given.shape[:2]
    return given.shortest if keeps and result.kind in IMAGE_KINDS else 0
