"""The interpreter: a plan executed with NumPy, step by step. The oracle and the debug mode.

It runs the plain form of every op's `draw`, `out_size` and kernel, gives every value its own memory
(so a fault of memory planning shows as a difference from the executor), and never imports numba. It
computes exactly the bytes of the executor, at a hundredth of the speed. Runs anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from stoker.ops.contract.rules import visible_word
from stoker.ops.custom.foreign import CallError
from stoker.ops.kernels.points import MOVERS
from stoker.pipeline.engine.following import Follower
from stoker.pipeline.engine.interface import Freeze, check_freeze
from stoker.pipeline.engine.sample_faults import Sides, call_error, sample_error
from stoker.pipeline.graph import array_arithmetic, expressions
from stoker.pipeline.graph.nodes import STATISTICS
from stoker.pipeline.graph.statistics import statistic
from stoker.pipeline.plain.plain_arrays import as_python, check_arrays, fits, store
from stoker.pipeline.plain.plain_calls import call_plain, whole_sides
from stoker.pipeline.planning.decision import Decision, made_for, source_of
from stoker.pipeline.planning.engine_tables import (
    as_record,
    fill_number,
    params_table,
    physical,
    plain_record,
    records_table,
)
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.steps import (
    SIZES,
    ApplyStep,
    ArrayStep,
    ConstStep,
    ContextStep,
    ConvertStep,
    DrawStep,
    ElementStep,
    ExprStep,
    FoldStep,
    IfStep,
    InputStep,
    ItemsStep,
    KernelStep,
    ParameterStep,
    RecordStep,
    RescaleStep,
    SameSizeStep,
    Step,
    StoreSizedStep,
    StoreStep,
    VectorsStep,
)
from stoker.rng.row import Row
from stoker.rng.streams import Key, frozen_key, make_key, stream_key

NO_KEY = Key(0, 0, 0, 0, 0)


class Interpreter:
    """Computes rows of a plan in plain Python; see `stoker.pipeline.engine.interface.Engine`.

    Attributes:
        plan: the plan.
        drawn: indices of the decisions that the last row made.
        follower: sets the parameters that follow the place in the stream.
    """

    def __init__(self, plan: Plan, freeze: Freeze | None = None) -> None:
        """Prepare the parameters.

        Args:
            plan: the plan.
            freeze: stream name -> the integer that replaces (id, epoch, visit, view), or "epoch".

        Raises:
            UnknownNameError: a freeze names a stream that the plan does not have.
            UsageError: a freeze is neither an integer nor "epoch".
        """
        self.plan = plan
        self.drawn: list[int] = []
        self._freeze = check_freeze(plan, freeze)
        self._params = params_table(plan.decisions)
        self._records = records_table(plan.decisions)
        self.follower = Follower(plan, self._params)
        self._sized = {step.output: step for step in plan.steps if isinstance(step, StoreSizedStep)}

    def run(self, row: Row, inputs: Sequence[Any], outputs: Sequence[np.ndarray]) -> None:
        """Compute one row; see `Engine.run`.

        Raises:
            SampleError: sizes do not fit, or do not match each other.
            UsageError: inputs or outputs differ from the plan in number, dtype or rank.
        """
        columns = check_arrays(self.plan, inputs, outputs)
        self.drawn = []
        run = self.begin(row, columns)
        try:
            run.steps(self.plan.steps)
        except CallError as failure:
            raise call_error(row, failure) from failure.__cause__
        for place, (value, out) in enumerate(zip(self.plan.stores, outputs, strict=True)):
            if place in self._sized:
                self._store_sized(self._sized[place], row, run.env[value], outputs)
            elif place - 1 not in self._sized:
                store(run.env[value], out)

    def _store_sized(
        self, step: StoreSizedStep, row: Row, value: np.ndarray, outputs: Sequence[np.ndarray]
    ) -> None:
        """Copy a value of its own size to the start of its room; write its size."""
        out, size = outputs[step.output], [value.shape[place] for place in step.varies]
        into = out.view(physical(out.dtype.name))
        if step.form.form != "pad":
            into.reshape(-1)[: value.size] = value.reshape(-1)
        else:
            room = [out.shape[place] for place in step.varies]
            if any(side > most for side, most in zip(size, room, strict=True)):
                other = (room[0], room[1] if len(room) > 1 else 1)
                raise sample_error(self.plan, row, step.check, size_of(value), other)
            into[...] = fill_number(step.form.fill, out.dtype.name)
            into[tuple(slice(side) for side in size)] = value
        outputs[step.output + 1][...] = size

    def begin(self, row: Row, columns: Sequence[np.ndarray]) -> PlainRun:
        """Return a run over a row's inputs; a recorder overrides it."""
        return PlainRun(self, row, columns)

    def records(self) -> list[dict[str, Any]]:
        """Return what the last row decided, one entry for each decision that was made."""
        return [
            {
                "op": decision.op.name,
                "stream": decision.stream,
                "site": str(decision.site),
                "record": plain_record(self._records, decision),
            }
            for decision in self.plan.decisions
            if decision.index in self.drawn
        ]

    def record_of(self, index: int) -> bytes | None:
        """Return what a decision drew for the last computed row; see `Engine.record_of`."""
        return self._records[f"d{index}"].tobytes() if index in self.drawn else None

    def draw(
        self, decision: Decision, row: Row, size: Sides, items: tuple[np.ndarray, ...] = ()
    ) -> None:
        """Fill the record of a decision for a row; `items` are those that it reads, if any."""
        op, index = decision.op, decision.index
        self._records[f"d{index}"] = np.zeros((), op.record)
        params, record = as_record(self._params, index), as_record(self._records, index)
        key = key_of(decision, row, self._freeze)
        call_plain(decision, "draw", type(op).draw, row, key, params, *size, record, *items)
        self.drawn.append(index)

    def rescale(self, decision: Decision, row: Row, sizes: tuple[int, int, int, int]) -> bool:
        """Fill the record of a decision from that of its source; return whether that is possible.

        Args:
            decision: a decision that is carried over.
            row: the row.
            sizes: height and width of the source decision, and of this one.
        """
        source = source_of(decision)
        self._records[f"d{decision.index}"] = self._records[f"d{source.index}"]
        rule = type(decision.op).rescale
        if sizes[:2] == sizes[2:] or rule is None:
            return True
        params, record = self.parts(decision)
        return bool(call_plain(decision, "rescale", rule, row, params, record, sizes))

    def set_parameter(self, decision: Decision, fields: Sequence[str], number: int | float) -> None:
        """Write a number into run-time parameters of a decision."""
        for field in fields:
            self._params[f"d{decision.index}"][field] = number

    def parts(self, decision: Decision) -> tuple[Any, Any]:
        """Return parameters and record of a decision."""
        return as_record(self._params, decision.index), as_record(self._records, decision.index)


def key_of(decision: Decision, row: Row, freeze: dict[str, int | Literal["epoch"]]) -> Key:
    """Return the key that a decision draws with."""
    if decision.stream is None:
        return NO_KEY
    view = 0 if decision.shared else row.view
    key = make_key(row.seed, stream_key(decision.stream), row.id, row.epoch, row.visit, view)
    return frozen_key(key, freeze.get(decision.stream))


def size_of(value: Any) -> Sides:
    """Return height and width of a value as ops see them; a vector is (n, 1), a scalar (1, 1)."""
    if not isinstance(value, np.ndarray):
        return 1, 1
    return value.shape[0], value.shape[1] if value.ndim > 1 else 1


class PlainRun:
    """The run of one row; `env` holds arrays (a scalar in memory is (1,)) and numbers."""

    def __init__(self, engine: Interpreter, row: Row, columns: Sequence[np.ndarray]) -> None:
        if engine.follower.active:
            engine.follower.follow(row)
        self.engine = engine
        self.plan = engine.plan
        self.row = row
        self.columns = columns
        self.env: dict[int, Any] = {}

    def steps(self, steps: tuple[Step, ...]) -> None:
        """Execute steps in order."""
        for step in steps:
            self.step(step)

    def step(self, step: Step) -> None:
        """Execute one step."""
        match step:
            case InputStep():
                self.take(step)
            case RescaleStep():
                self.rescale(step)
            case DrawStep():
                self.draw(step.decision)
            case SameSizeStep():
                self.same_size(step)
            case ApplyStep() | FoldStep():
                self.apply(step)
            case ItemsStep():
                self.items(step)
            case VectorsStep():
                self.turn(step)
            case IfStep():
                self.branch(step)
            case StoreStep() | StoreSizedStep():
                pass  # outputs are copied at the end, here: no value is in the slot
            case _:
                self.scalar(step)

    def take(self, step: InputStep) -> None:
        """Take a field if its size is within bounds."""
        value, state = self.columns[step.column], self.plan.states[step.dst]
        if not fits(value.shape, state):
            raise sample_error(self.plan, self.row, step.check, size_of(value), (0, 0))
        view = value.view()
        view.flags.writeable = False
        self.env[step.dst] = view

    def draw(self, decision: Decision) -> None:
        """Decide."""
        size = (0, 0) if decision.of is None else size_of(self.env[decision.of])
        items = () if decision.items is None else (self.env[decision.items],)
        self.engine.draw(decision, self.row, size, items)

    def rescale(self, step: RescaleStep) -> None:
        """Carry a decision over to the size of another value."""
        values = made_for(source_of(step.decision)), made_for(step.decision)
        left, right = (size_of(self.env[value]) for value in values)
        if not self.engine.rescale(step.decision, self.row, (*left, *right)):
            raise sample_error(self.plan, self.row, step.check, left, right)

    def set_parameter(self, step: ParameterStep) -> None:
        """Write a number of the row into the parameters of a decision."""
        if not all(self.number(value) for value in step.present):
            raise sample_error(self.plan, self.row, step.absent, (0, 0), (0, 0))
        rule = step.parameter.rule
        number = as_python(self.number(step.parameter.value))
        number = int(number) if rule.whole else float(number)
        if not rule.holds(number):
            raise sample_error(self.plan, self.row, step.check, (number, 0), (0, 0))
        self.engine.set_parameter(step.decision, rule.fields, number)

    def same_size(self, step: SameSizeStep) -> None:
        """Compare two sizes."""
        left, right = size_of(self.env[step.left]), size_of(self.env[step.right])
        if left != right:
            raise sample_error(self.plan, self.row, step.check, left, right)

    def apply(self, step: KernelStep) -> None:
        """Run a kernel into new memory."""
        src, state = self.env[step.reads[0]], self.plan.states[step.dst]
        shape = tuple(side or 0 for side in state.shape) or (1,)
        if step.check is not None:
            size = self.after(step.decision, *size_of(src))
            shape = (*size, *shape[2:])[: len(shape)]
            if not fits(shape, state):
                raise sample_error(self.plan, self.row, step.check, (size[0], size[1]), (0, 0))
        self.env[step.dst] = self.compute(step, shape)

    def compute(self, step: KernelStep, shape: tuple[int, ...]) -> np.ndarray:
        """Return the result of the kernel, read-only."""
        dst = np.empty(shape, physical(self.plan.states[step.dst].dtype))
        params, record = self.engine.parts(step.decision)
        if isinstance(step, FoldStep):
            args: tuple[Any, ...] = ([self.env[src] for src in step.reads], dst, params, record)
        else:
            args = self.env[step.src], dst, params, record, None
        self.ask(step.decision, f"{step.kind} kernel", step.kernel.plain, *args)
        dst.flags.writeable = False
        return dst

    def items(self, step: ItemsStep) -> None:
        """Run a kernel of boxes or keypoints into new memory."""
        src, decision = self.env[step.src], step.decision
        params, record = self.engine.parts(decision)
        sizes: tuple[int, ...] = (0, 0, 0, 0)
        if step.frame is not None:
            before = size_of(self.env[step.frame])
            sizes = (*before, *self.after(decision, *before))
        dst = np.zeros(self.plan.states[step.dst].bound, src.dtype)
        visible = visible_word(self.plan.states[step.src])
        if step.kernel is not None:
            extra = (visible,) if step.kernel.visible else ()
            args = src, dst, params, record, sizes, *extra
            count = int(self.ask(decision, f"{step.kind} kernel", step.kernel.run, *args))
        else:
            numbers = self.ask(decision, "forward", step.forward, params, record, sizes)
            with np.errstate(all="ignore"):  # damaged coordinates pass, as in machine code
                count = MOVERS[step.kind](src, dst, numbers, sizes, visible)
        if not 0 <= count <= len(src):
            raise sample_error(self.plan, self.row, step.check, (count, len(src)), (0, 0))
        self.env[step.dst] = dst[:count]
        self.env[step.dst].flags.writeable = False

    def turn(self, step: VectorsStep) -> None:
        """Turn the components of a vector field into new memory."""
        src, decision = self.env[step.src], step.decision
        sizes = (*size_of(self.env[step.frame]), *size_of(src))
        numbers = self.ask(decision, "forward", step.forward, *self.engine.parts(decision), sizes)
        dst = np.empty_like(src)
        step.turner.plain(src, dst, numbers)
        dst.flags.writeable = False
        self.env[step.dst] = dst

    def after(self, decision: Decision, height: int, width: int) -> tuple[int, ...]:
        """Return the output size of an op for an input size."""
        params, record = self.engine.parts(decision)
        out_size = type(decision.op).out_size
        return whole_sides(self.ask(decision, "out_size", out_size, params, record, height, width))

    def ask(self, decision: Decision, what: str, fn: Callable[..., Any], *args: Any) -> Any:
        """Call a function of an op; see `call_plain`."""
        return call_plain(decision, what, fn, self.row, *args)

    def branch(self, step: IfStep) -> None:
        """Execute one of two blocks and join."""
        taken = bool(self.number(step.cond) != 0)
        self.steps(step.then if taken else step.orelse)
        for join in step.joins:
            self.env[join.dst] = self.env[join.then if taken else join.orelse]

    def expression(self, step: ExprStep) -> bool | int | float:
        """Compute a scalar from values."""
        first = self.env[step.args[0]]
        if step.op in SIZES:
            return len(first) if step.op == "count" else size_of(first)[step.op == "width"]
        if step.op in STATISTICS:
            return statistic(step.op, first)
        numbers = [as_python(self.number(arg)) for arg in step.args]
        found: bool | int | float = expressions.evaluate(step.op, numbers, list(step.types))
        return found

    def element(self, step: ElementStep) -> None:
        """Read an element."""
        array = self.env[step.src]
        indices = [int(self.number(index)) for index in step.indices]
        for index, side in zip(indices, array.shape, strict=True):
            if not -side <= index < side:
                raise sample_error(self.plan, self.row, step.check, (index, side), (0, 0))
        self.env[step.dst] = as_python(array[tuple(indices)])

    def elementwise(self, step: ArrayStep) -> None:
        """Compute an array from arrays and numbers."""
        shaped = [arg for arg in step.args if self.plan.states[arg].shape]
        shapes = {self.env[arg].shape for arg in shaped}
        if step.check is not None and len(shapes) > 1:
            left, right = (size_of(self.env[arg]) for arg in shaped)
            raise sample_error(self.plan, self.row, step.check, left, right)
        if step.fits is not None:
            number = as_python(self.number(step.fits[0]))
            low, high = array_arithmetic.limits(step.compute)
            if not low <= number <= high:
                raise sample_error(self.plan, self.row, step.fits[1], (number, 0), (0, 0))
        given = [self.env[a] if a in shaped else as_python(self.number(a)) for a in step.args]
        rule = array_arithmetic.Rule(step.compute, self.plan.states[step.dst].dtype)
        self.env[step.dst] = array_arithmetic.compute(step.op, given, rule)
        self.env[step.dst].flags.writeable = False

    def number(self, value: int) -> Any:
        """Return a scalar as a number, in memory or not."""
        found = self.env[value]
        return found[0] if isinstance(found, np.ndarray) else found

    def scalar(self, step: Step) -> None:
        """Execute a step that makes or takes a scalar, a conversion or an array from arrays."""
        match step:
            case ConstStep():
                self.env[step.dst] = step.value
            case ContextStep():
                self.env[step.dst] = getattr(self.row, step.name)
            case ExprStep():
                self.env[step.dst] = self.expression(step)
            case ElementStep():
                self.element(step)
            case ArrayStep():
                self.elementwise(step)
            case RecordStep():
                _, record = self.engine.parts(step.decision)
                self.env[step.dst] = record[step.name].item()
            case ConvertStep():
                self.convert(step)
            case ParameterStep():
                self.set_parameter(step)

    def convert(self, step: ConvertStep) -> None:
        """Copy with the dtype and rank of the destination."""
        state = self.plan.states[step.dst]
        dtype = physical(state.dtype)
        if self.plan.places[step.dst].kind == "register":
            self.env[step.dst] = np.dtype(dtype).type(self.number(step.src)).item()
            return
        src = np.atleast_1d(self.env[step.src])
        shape = (*src.shape, 1) if len(state.shape) > src.ndim else src.shape
        self.env[step.dst] = src.astype(dtype).reshape(shape)
