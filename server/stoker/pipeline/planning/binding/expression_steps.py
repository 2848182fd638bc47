"""Binds expressions: sizes and statistics of a value, elements of arrays, and arithmetic.

A scalar that is known while binding is a `ConstStep`, so an index out of bounds is refused here if
the side is known, too; otherwise that sample is bad. The dtypes of arrays are those of
`graph.array_arithmetic`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stoker.ops.contract.states import IMAGE_KINDS, LEVELS, LEVELS16, State
from stoker.pipeline.graph import array_arithmetic, expressions
from stoker.pipeline.graph.array_arithmetic import Operand, Rule
from stoker.pipeline.graph.nodes import ELEMENT, STATISTICS, Expr
from stoker.pipeline.graph.statistics import check_statistic
from stoker.pipeline.planning.agreement.geometric_history import Histories
from stoker.pipeline.planning.binding.known_sizes import KnownSizes
from stoker.pipeline.planning.binding.op_steps import OpBinder
from stoker.pipeline.planning.bound_graph import BoundGraph
from stoker.pipeline.planning.op_declarations import MAX_RANK
from stoker.pipeline.planning.steps import ArrayStep, ConstStep, ElementStep, ExprStep, Step
from stoker.protocol.errors import BuildError

FLOAT32_MOST = float(np.finfo(np.float32).max)
FUNCTION = "call a function of your own, as in ops.python(function, value)"


class ExpressionBinder:
    """Binds all expressions but `record`.

    Attributes:
        constants: value -> its number, if that is known while binding.
        singles: scalars in registers that are numbers of float32.
    """

    def __init__(
        self, bound: BoundGraph, sizes: KnownSizes, ops: OpBinder, histories: Histories
    ) -> None:
        self.bound = bound
        self.sizes = sizes
        self.ops = ops
        self.histories = histories
        self.constants: dict[int, bool | int | float] = {}
        self.singles: set[int] = set()

    def constant(self, value: int, number: bool | int | float, steps: list[Step]) -> None:
        """Bind a number that is known."""
        self.constants[value] = number
        self.bound.scalar(value, type(number))
        steps.append(ConstStep(value, number))

    def bind(self, node: Expr, value: int, steps: list[Step]) -> None:
        """Bind an expression."""
        self.ops.unmixed(node.args, value)
        states = [self.bound.states[arg] for arg in node.args]
        if node.op == "side":
            self._side(node, value, steps)
        elif node.op == ELEMENT:
            self._element(node, value, steps)
        elif node.op in STATISTICS:
            kind = self.bound.within(value, node.op, lambda: check_statistic(node.op, states[0]))
            self._scalar(value, node.op, node.args, (states[0].dtype,), kind, steps)
            if states[0].dtype == "float32" and node.op in ("max", "min"):
                self.singles.add(value)
        elif node.op in ("height", "width", "count"):
            self.bound.within(value, node.op, lambda: _check_size(node.op, states[0]))
            self._scalar(value, node.op, node.args, ("",), "int64", steps)
        elif any(state.shape for state in states):
            self._array(node, value, states, steps)
        else:
            types = self.bound.within(value, node.op, lambda: argument_types(states))
            result = self.bound.within(
                value, node.op, lambda: expressions.result_type(node.op, types)
            )
            args = node.args
            if node.op in expressions.COMPARISONS:
                args = self._comparable(args, value, steps)
            self._scalar(value, node.op, args, tuple(types), result, steps)

    def _scalar(
        self,
        value: int,
        op: str,
        args: tuple[int, ...],
        types: tuple[str, ...],
        result: str,
        steps: list[Step],
    ) -> None:
        self.bound.scalar(value, result)
        steps.append(ExprStep(value, op, args, types))

    def _comparable(self, args: tuple[int, ...], value: int, steps: list[Step]) -> tuple[int, ...]:
        """Round a constant that a number of float32 is compared with: 0.7 equals a stored 0.7."""
        left, right = args
        if left in self.constants:
            return (self._rounded(left, right, value, steps), right)
        return (left, self._rounded(right, left, value, steps))

    def _rounded(self, constant: int, other: int, value: int, steps: list[Step]) -> int:
        number = self.constants.get(constant)
        single = other in self.singles or self.bound.states[other].dtype == "float32"
        if not single or number is None or abs(number) > FLOAT32_MOST:
            return constant
        rounded = float(np.float32(number))
        if rounded == number:
            return constant
        made = self.bound.new_value(value)
        self.constant(made, rounded, steps)
        return made

    def _side(self, node: Expr, value: int, steps: list[Step]) -> None:
        """Bind `value.shape[axis]` and `len(value)`."""
        (src,) = node.args
        state = self.bound.states[src]
        axis = self.bound.within(value, "shape", lambda: _axis(node.name, state))
        side = state.shape[axis]
        if side is not None:
            self.constant(value, side, steps)
            return
        if axis > 1:
            self.bound.fail(
                value, f"shape[{axis}] of {state}: only the first two sides may differ by sample"
            )
        op = "count" if state.items else ("height", "width")[axis]
        self.bound.scalar(value, "int64")
        steps.append(ExprStep(value, op, node.args, ("",)))

    def _element(self, node: Expr, value: int, steps: list[Step]) -> None:
        """Bind `value[index, ...]`."""
        src, *indices = node.args
        state = self.bound.states[src]
        what = f"an element of {self.bound.named(src)}, {state}"
        self.bound.within(value, what, lambda: _check_element(state, len(indices)))
        for axis, (index, side, most) in enumerate(
            zip(indices, state.shape, state.bound, strict=True)
        ):
            given = self.bound.states[index]
            if given.shape or np.dtype(given.dtype).kind not in "iu" or given.dtype == "uint64":
                self.bound.fail(
                    value, f"{what}: expected a whole number of 64 bits as index, got {given}"
                )
            number = self.constants.get(index)
            if number is not None and not -most <= number < most:
                sides = f"{most}" if side is not None else f"at most {most}"
                self.bound.fail(
                    value,
                    f"{what}: index {number} is out of bounds: side {axis} has {sides} elements",
                )
        check = self.bound.check("element", what, value)
        self.bound.scalar(value, expressions.widened(state.dtype))
        if state.dtype == "float32":
            self.singles.add(value)
        steps.append(ElementStep(value, src, tuple(indices), check))

    def _array(self, node: Expr, value: int, states: Sequence[State], steps: list[Step]) -> None:
        """Bind an operation on at least one array."""
        sign = array_arithmetic.SIGNS[node.op]
        given = [Operand(state.dtype, not state.shape) for state in states]
        self.bound.within(value, sign, lambda: _check_operands(states))
        rule = self.bound.within(value, sign, lambda: array_arithmetic.rule_of(node.op, given))
        sources = [arg for arg, state in zip(node.args, states, strict=True) if state.shape]
        shaped = [self.bound.states[source] for source in sources]
        check = None
        if len(sources) == 2 and sources[0] != sources[1]:
            check = self._same_shape(sources, value, sign)
        fits = self._fits(node, rule, given, value)
        pairs = list(zip(*(state.shape for state in shaped), strict=True))
        shape = tuple(next((side for side in pair if side is not None), None) for pair in pairs)
        bound = tuple(map(min, zip(*(state.bound for state in shaped), strict=True)))
        self.bound.states[value] = State("array", rule.result, shape, bound)
        self.sizes.of[value] = self.sizes.size(sources[0])
        self.histories.derive(sources, value)
        steps.append(ArrayStep(value, node.op, node.args, rule.compute, check, fits))

    def _same_shape(self, sources: Sequence[int], value: int, sign: str) -> int | None:
        """Require two arrays of one shape; return the status of a sample in which they differ."""
        left, right = (self.bound.states[source] for source in sources)
        what = f"{sign} of {self.bound.named(sources[0])} and {self.bound.named(sources[1])}"
        pairs = list(zip(left.shape, right.shape, strict=False))
        known = all(None in pair or pair[0] == pair[1] for pair in pairs)
        if len(left.shape) != len(right.shape) or not known:
            self.bound.fail(
                value,
                f"{what}: {left} and {right} have different shapes: expected two arrays of one "
                f"shape, or an array and a number. For another rule, {FUNCTION}",
            )
        free = [axis for axis, pair in enumerate(pairs) if None in pair]
        if not free or self.sizes.size(sources[0]) == self.sizes.size(sources[1]):
            return None
        return self.bound.check("same_shape", what, value)

    def _fits(
        self, node: Expr, rule: Rule, given: Sequence[Operand], value: int
    ) -> tuple[int, int] | None:
        """Require that a whole number fits the integers of an array."""
        whole = np.dtype(rule.compute).kind in "iu" and rule.compute != "int64"
        numbers = [arg for arg, one in zip(node.args, given, strict=True) if one.is_number]
        if not whole or not numbers or self.bound.states[numbers[0]].dtype == "bool":
            return None
        low, high = array_arithmetic.limits(rule.compute)
        what = f"{array_arithmetic.SIGNS[node.op]} of {rule.compute} and a number"
        number = self.constants.get(numbers[0])
        if number is None:
            return numbers[0], self.bound.check("fits", f"{what} from {low} to {high}", value)
        if not low <= number <= high:
            self.bound.fail(
                value,
                f"{what}: {number} does not fit {rule.compute}, which holds {low} to {high}: use "
                'ops.cast(value, dtype="int64") or "float32" first',
            )
        return None


def argument_types(states: Sequence[State]) -> list[str]:
    """Return the types of scalars: bool, int64 or float64.

    Raises:
        BuildError: a value is not a scalar, or none of these types can hold it.
    """
    return [expressions.widened(np.dtype(state.dtype).name) for state in states]


def check_condition(state: State) -> None:
    """Refuse a condition that is not one number.

    Raises:
        BuildError: says what to write.
    """
    if state.items:
        raise BuildError(f"expected one number, got {state}: write len(value) > 0")
    if state.kind in IMAGE_KINDS:
        raise BuildError(
            f"expected one number, got {state}: ask for a statistic, as in value.mean() > 60 or "
            "value.any()"
        )
    if state.shape:
        raise BuildError(
            f"expected one number, got {state}: the truth of an array is ambiguous; write "
            "value.any() or value.all(), of one comparison (x > 0) or of several, as in "
            "((x > 0) & (x < 9)).all()"
        )
    argument_types([state])


def _check_size(op: str, state: State) -> None:
    if op == "count" and not state.items:
        raise BuildError(f"expected boxes or keypoints, got {state}")
    if op != "count" and state.kind not in IMAGE_KINDS:
        raise BuildError(f"expected an image or mask, got {state}")


def _axis(name: str, state: State) -> int:
    """Return the index of a side."""
    rank = 1 if state.items else len(state.shape)
    axis = int(name)
    if not rank:
        raise BuildError(f"{state} is one number: it has no sides and no length")
    if not -rank <= axis < rank:
        known = "only its number, shape[0] or len(...)" if state.items else f"{rank} sides"
        raise BuildError(f"{state} has no side {axis}; it has {known}")
    return axis % rank


def _check_element(state: State, count: int) -> None:
    if state.items:
        raise BuildError(
            "boxes and keypoints are not indexed: store the numbers that a condition needs as an "
            "array or as numbers of their own"
        )
    if not state.shape or state.kind == "bytes":
        raise BuildError("expected an array, which has elements; leave the index out")
    if len(state.shape) > MAX_RANK:
        raise BuildError(f"expected at most {MAX_RANK} sides")
    if len(state.shape) != count:
        example = ", ".join("ijklm"[: len(state.shape)])
        raise BuildError(
            f"expected an index for each of its {len(state.shape)} sides, as in value[{example}], "
            f"got {count}; for rows, columns and slices, {FUNCTION}"
        )
    expressions.widened(state.dtype)


def _check_operands(states: Sequence[State]) -> None:
    for state in states:
        _check_operand(state)


def _check_operand(state: State) -> None:
    """Refuse an operand that is neither a number nor an array of numbers."""
    if state.kind in IMAGE_KINDS or state.scale in (LEVELS, LEVELS16):
        raise BuildError(
            f"{state}: images and masks are not operands, since levels would leave their range: "
            "use ops such as brightness, contrast, invert, blend, to_float and normalize, ask for "
            f"a statistic, as in value.mean() > 60, or {FUNCTION}"
        )
    if state.items:
        raise BuildError(
            f"{state}: boxes and keypoints are not operands: use ops, or store the numbers that a "
            "condition needs as an array"
        )
    if state.kind == "bytes":
        raise BuildError(f"{state}: bytes are not operands: {FUNCTION}")
    if len(state.shape) > MAX_RANK:
        raise BuildError(f"{state}: expected at most {MAX_RANK} sides")
    if None in state.shape[2:]:
        raise BuildError(f"{state}: only the first two sides of an operand may differ by sample")
    if not state.shape:
        expressions.widened(state.dtype)
