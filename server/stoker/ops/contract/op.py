"""The op contract v1: what every transform declares, draws and runs.

An op is a frozen dataclass of its parameters. It also has a `version`, a state rule (`declare`), a
fixed-size draw record (`record`), one `draw` that fills it, and one `Kernel` for each kind it has a
rule for. Check, draw and apply are separate: draws are computed without pixels, and a kernel reads
only its parameters and its record, so any past decision can be replayed.

Everything that runs per sample is a plain function marked with `stoker.jit.kernel`: it remains
Python until it is compiled, so this module and every op can be imported without numba. Parameters
reach compiled code as run-time arguments, never as literals: one compiled kernel serves all values
of the parameters. Sizes are in pixels; a state's first two sides are height and width.

Invariants, which the contract tests check for every registered op: the compiled kernel, its plain
NumPy reference and any batch or worker give the same bytes; nothing outside `dst` is written; the
result has the declared state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np

from stoker.ops.contract.frozen import seal
from stoker.ops.contract.kernel_forms import FoldKernel, ItemsKernel, Kernel, no_draw, same_size
from stoker.ops.contract.looked_at import looked_at
from stoker.ops.contract.numbers import settled
from stoker.ops.contract.parameters import DeclaredLayout, rules_of
from stoker.ops.contract.row_numbers import row_number
from stoker.ops.contract.rules import ANY_CHANNELS, UINT8, remedy_of, require_pixels
from stoker.ops.contract.running import running_tracer
from stoker.ops.contract.states import ITEM_KINDS, VECTORS, ParameterError, State, StateError
from stoker.protocol.canonical import Canonical
from stoker.protocol.errors import BuildError
from stoker.protocol.item_fields import COORDINATES
from stoker.rng.streams import check_stream_name, make_key, stream_key


class Tracer(Protocol):
    """The interface of a traced value to the pipeline being written."""

    def apply(
        self, op: Op, values: Sequence[Value], stream: str | None, *, relative: bool = False
    ) -> tuple[Value, ...]:
        """Append a call of an op and return its results: one per value, or one for a fold."""
        ...

    def stream_of(self, op: Op) -> str | None:
        """Return the stream name of an instance's first call; None if it draws nothing."""
        ...

    def input(self, name: str) -> Value:
        """Return a field of the sample, or for `stoker.<fact>` a fact about the row."""
        ...

    def expr(self, op: str, *args: object) -> Value:
        """Append an expression over values and numbers, and return its result."""
        ...

    def decided(self, result: Value, field: str) -> Value:
        """Return a number of the record that a result of `apply` was made with."""
        ...

    def made_by(self, result: Value) -> Op | None:
        """Return the op that a value is a result of; None for all other values."""
        ...

    def applied(self, op: Op) -> Value:
        """Return whether an instance changed the values of its last call: a bool of each row."""
        ...

    def branch(
        self, cond: object, then: Callable[[], Any], orelse: Callable[[], Any], pair: Any
    ) -> list[Any]:
        """Append a choice, and return the values that its branches join to."""
        ...

    def unlink(self, value: Value) -> Value:
        """Return the value with the mark of `ops.unlinked`."""
        ...


class Value:
    """A value of a pipeline while it is traced; ops accept only these.

    Attributes:
        tracer: the pipeline under construction.
    """

    tracer: Tracer


def _named(value: object) -> str:
    return "a field" if isinstance(value, Value) else type(value).__name__


EMPTY = np.dtype([("none", "u1")])


@dataclass(frozen=True)
class Op:
    """Base of every transform: parameters in the instance, rules in the class.

    Class attributes:
        name: the op's name, also its default stream name.
        version: increased with any change to a draw or a pixel.
        random: whether `draw` reads its key.
        parameters: dtype of the run-time parameters that `params()` returns; it follows from the
            declared parameters (`contract.parameters`) unless an op computes others.
        record: dtype of the draw record: the full content of one decision.
        kernels: kind -> Kernel; a kind without a rule is a build error.
        floats: kind -> Kernel of float32 values, if it differs from the one in `kernels`.
        wide: kind -> Kernel of uint16 values, if it differs.
        signed: kind -> Kernel of int16 values, if it differs.
        forward: `forward(params, record, sizes) -> nine numbers`: the projective map from points in
            the input to points in the output, see `kernels.points`; `sizes` are height and width
            before and after. It is the rule for boxes and keypoints; None without a rule.
        affine: whether `forward`, if any, is affine for every record, so vector fields follow it.
        items: kind -> ItemsKernel, for boxes and keypoints that need more than a map.
        folds: kind -> FoldKernel. An op with folds makes one value from all its arguments, and has
            no other kernels; see `stoker.ops.bases.folds`.
        float_folds: kind -> FoldKernel of float32 values, if it differs.
        draw: `draw(key, params, height, width, record)`, with the size of the first input; with
            `draws_from`, `draw(key, params, height, width, record, items)`.
        draws_from: "boxes" or "keypoints": the decision reads those of its call, which must have
            an image or mask first and exactly one such value. `items` are (n, words) uint32, the
            coordinates first; n may be 0. "mask": it reads the first mask of its call, which must
            have an image or mask first; `items` is that mask, (height, width) of any dtype of
            masks. Empty: the decision reads only sizes.
        out_size: `out_size(params, record, height, width) -> (height, width)`.
        reads: `reads(params, record, height, width) -> (top, left, height, width)`: the box, in an
            image of that size, that the kernels of image and mask stay inside of when reading;
            None: they may read all of it. A decoder may skip the rest.
        rescale: `rescale(params, record, sizes) -> bool`: converts a record that was drawn for a
            value of height and width `sizes[:2]` to the same decision, in proportion to the sides,
            for a value of `sizes[2:]`. It is called for `relative=True` if these differ, and
            returns whether that is possible: not if it needs one ratio of sides and they differ in
            it. `contract.relative` has rules; None: such a call is refused.
        mirrors: field of the record that is 1 where the op turns left into right; "always"; or
            empty for never.
        units: field of the record -> its unit, for people; see `stoker.ops.contract.units`.
        image_dtypes: dtypes of images that there is a rule for.
        image_channels: numbers of channels of images that there is a rule for.
        moves_pixels: whether pixels change their places, so that a mask of the image must follow;
            None: if the op has a rule for points.
        of_levels: whether numbers of pixels mean levels or colors to the op: it refuses an image
            that was normalized.
        clips_floats: whether it takes floats for parts of white, and clips or misreads others: it
            refuses stored floats that leave 0 to 1.
        by_user: whether a user wrote the op, which then may do anything; `register` sets it.
        call_options: keywords of the op's function besides its parameters.
        examples: parameters for tests; the first also completes what has no default, where the
            kernel cache is warmed. See `contract.examples`.
        picture: parameters that show the op in docs/ops.md, if its defaults show little.
        varied: name of a parameter -> values that random pipelines choose from, besides `p`; None:
            they have the op only if it keeps pixels in place and has a `p`.
        calls_python: whether kernels leave compiled code to call a Python function of the author,
            named by the parameter `function`; see `stoker.ops.custom.python_call`.
        result_number: the parameter that only numbers the results of one decision; empty: none.
        default_stream: the default stream name, if it is not the op's name.
        decodes_scaled: whether its image is a field, which may be decoded at a fraction of its
            size; see `stoker.ops.bases.scaled_box`.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    random: ClassVar[bool] = False
    parameters: ClassVar[np.dtype[Any]] = cast(Any, DeclaredLayout())
    record: ClassVar[np.dtype[Any]] = EMPTY
    kernels: ClassVar[dict[str, Kernel]]
    floats: ClassVar[dict[str, Kernel]] = {}
    wide: ClassVar[dict[str, Kernel]] = {}
    signed: ClassVar[dict[str, Kernel]] = {}
    draw: ClassVar[Callable[..., None]] = staticmethod(no_draw)
    draws_from: ClassVar[str] = ""
    out_size: ClassVar[Callable[..., tuple[int, int]]] = staticmethod(same_size)
    forward: ClassVar[Callable[..., Any] | None] = None
    affine: ClassVar[bool] = False
    reads: ClassVar[Callable[..., Any] | None] = None
    rescale: ClassVar[Callable[..., bool] | None] = None
    items: ClassVar[dict[str, ItemsKernel]] = {}
    folds: ClassVar[dict[str, FoldKernel]] = {}
    float_folds: ClassVar[dict[str, FoldKernel]] = {}
    mirrors: ClassVar[str] = ""
    units: ClassVar[Mapping[str, str]] = {}
    image_dtypes: ClassVar[tuple[str, ...]] = UINT8
    image_channels: ClassVar[tuple[int, ...]] = ANY_CHANNELS
    moves_pixels: ClassVar[bool | None] = None
    of_levels: ClassVar[bool] = False
    clips_floats: ClassVar[bool] = False
    by_user: ClassVar[bool] = True
    call_options: ClassVar[tuple[str, ...]] = ("stream", "relative")
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    picture: ClassVar[Mapping[str, Any]] = {}
    varied: ClassVar[Mapping[str, Sequence[Any]] | None] = None
    calls_python: ClassVar[bool] = False
    result_number: ClassVar[str] = ""
    default_stream: ClassVar[str] = ""
    decodes_scaled: ClassVar[bool] = False

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Return an op whose parameters cannot be set; `frozen` has the errors."""
        seal(cls)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Convert NumPy scalars to Python numbers, then check the parameters.

        Bytes are refused: Python would treat them as a sequence of small numbers. Parameters that
        follow a schedule are checked once they are numbers.

        Raises:
            ParameterError: a parameter is of the wrong type or out of bounds.
        """
        for field in dataclasses.fields(self):
            value = settled(getattr(self, field.name))
            if isinstance(value, bytes | bytearray | memoryview):
                raise ParameterError(
                    f"{self.name}: expected {field.name} to be numbers or text, got {value!r}",
                    op=self.name,
                )
            self.settle(**{field.name: value})
        if not self.varying():
            self.check()

    def varying(self) -> list[tuple[str, int | None, Value]]:
        """Return the parameters that are values of a pipeline: (name, index in it or None, value).

        Such an op exists only in a pipeline under construction; see `graph.schedule`.
        """
        found: list[tuple[str, int | None, Value]] = []
        for field in dataclasses.fields(self):
            given = getattr(self, field.name)
            if isinstance(given, Value):
                found.append((field.name, None, given))
            elif isinstance(given, tuple | list):
                places = enumerate(given)
                found += [(field.name, at, part) for at, part in places if isinstance(part, Value)]
        return found

    @property
    def applied(self) -> Any:
        """True if the op changed the values that it was called with: a bool of each row.

        It is a value of the pipeline, for conditions, outputs and `ops.python`. After several calls
        of the instance, it is that of the last one.

        Raises:
            BuildError: outside of a pipeline's function, before a call, or for an op that always
                changes its values.
        """
        tracer = running_tracer()
        if tracer is None:
            raise BuildError(
                f"{self.name}.applied: expected to be read in a pipeline's function, after a call "
                "of this instance"
            )
        return tracer.applied(self)

    def check(self) -> None:
        """Check each declared parameter; ops override this for what several have in common.

        Raises:
            ParameterError: a parameter is of the wrong type or out of bounds.
        """
        for name, rule in rules_of(type(self)).items():
            self.settle(**{name: rule.check(self.name, name, getattr(self, name))})

    def settle(self, **values: Any) -> None:
        """Store checked parameters in their canonical form; `check` calls this."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def params(self) -> np.ndarray:
        """Return the run-time parameters, a 0-d array of dtype `parameters`."""
        rules = rules_of(type(self)).items()
        found = [one for name, rule in rules for one in rule.store(getattr(self, name))]
        return np.array(tuple(found), self.parameters) if found else np.zeros((), self.parameters)

    def for_state(self, state: State) -> Op:
        """Return the op for a field: parameters that mean its names of classes become numbers.

        Raises:
            StateError: the field lacks those names.
        """
        return self

    def params_data(self) -> dict[str, Canonical]:
        """Return the constructor's parameters as plain data; they become part of the graph."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def sample(  # noqa: PLR0913 - what a row is made of
        self,
        height: int,
        width: int,
        *,
        seed: int = 0,
        epoch: int = 0,
        id: int = 0,  # noqa: A002 - the glossary's word
        visit: int = 0,
        view: int = 0,
        stream: str | None = None,
        items: Any = None,
    ) -> dict[str, Any]:
        """Return the op's decision for a row of a stream: its record, without any pixels.

        Args:
            height: height in pixels of the first value that the op is applied to.
            width: its width in pixels.
            seed: seed of the stream.
            epoch: epoch, from 0.
            id: sample id.
            visit: how often the id came before in this epoch.
            view: view of the position.
            stream: stream name; by default the op's name.
            items: what an op with `draws_from` reads: coordinates of boxes (n, 4) or keypoints
                (n, 2) in pixels, or a mask (height, width).

        Returns:
            Field of the record -> number, or list of numbers; empty for an op that decides nothing.

        Raises:
            UsageError: a number or the name is out of range, or items are missing or
                superfluous.
        """
        name = check_stream_name(stream or self.default_stream or self.name)
        params, record = (
            np.zeros(1, np.dtype((np.record, d))) for d in (self.parameters, self.record)
        )
        params[0] = self.params()[()]
        key = make_key(
            row_number("seed", seed),
            stream_key(name),
            row_number("id", id),
            row_number("epoch", epoch),
            row_number("visit", visit),
            row_number("view", view),
        )
        extra = looked_at(self.name, self.draws_from, items, (height, width))
        type(self).draw(key, params[0], height, width, record[0], *extra)
        drawn = record[0]
        return {field: drawn[field].tolist() for field in drawn.dtype.names if field != "none"}

    def declare(self, states: tuple[State, ...]) -> tuple[tuple[State, ...], int]:
        """Return the states of the results and the scratch bytes that one kernel call needs.

        For a fold: the one state of the result, and the scratch of all calls together.

        Raises:
            StateError: there is no rule for a kind, dtype or shape.
        """
        self.require_kinds(states)
        return states, 0

    def require_kinds(self, states: tuple[State, ...]) -> None:
        """Refuse kinds that the op has no rule for.

        Raises:
            StateError: names the kind, and the kinds that have a rule.
        """
        for state in states:
            if state.kind not in self.kernels:
                raise self.no_rule(state)

    def require_pixels(self, states: tuple[State, ...]) -> None:
        """Refuse kinds, dtypes and channels without a rule, and values of different sizes.

        Raises:
            StateError: names op, state and what was expected.
        """
        self.require_kinds(states)
        require_pixels(self.name, states, self.image_dtypes, self.image_channels)

    @classmethod
    def kernel_of(cls, kind: str, dtype: str) -> Kernel:
        """Return the kernel of values of a kind and dtype."""
        special = {"float32": cls.floats, "uint16": cls.wide, "int16": cls.signed}
        own = special.get(dtype, {}).get(kind)
        return own or cls.kernels[kind]

    @classmethod
    def fold_of(cls, kind: str, dtype: str) -> FoldKernel:
        """Return the fold of values of a kind and dtype."""
        own = cls.float_folds.get(kind) if dtype == "float32" else None
        return own or cls.folds[kind]

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """Return the kinds that the op has a rule for."""
        moved = ITEM_KINDS if cls.forward is not None else ()
        vectors = VECTORS if cls.affine and "image" in cls.kernels else ()
        return tuple(sorted({*cls.kernels, *cls.items, *cls.folds, *moved, *vectors}))

    def vector_fault(self, kind: str) -> str | None:
        """Return why the op cannot treat flow or normals, and the remedy; None: it can."""
        if kind in self.kinds():
            return None
        return (
            f"the components of {kind} follow only affine maps, as of crops, flips, resizes and "
            f"affine. Leave the {kind} out of this call if {self.name} moves no pixels; if it "
            "does, use one of those ops"
        )

    def declare_items(self, state: State) -> State:
        """Return the state of the result for boxes or keypoints.

        Raises:
            StateError: there is no rule for the kind, or the coordinates are not in the format that
                ops transform.
        """
        if state.kind not in self.kinds():
            raise self.no_rule(state)
        native = COORDINATES[state.kind][0]
        if state.items[0].name != native:
            raise StateError(
                f"{self.name}: expected {state.kind} as {native}, got {state.items[0].name}: "
                "convert them after all other ops",
                op=self.name,
            )
        return state

    def require_looked_at(self, state: State) -> None:
        """Refuse a value that the decision cannot be made from; see `draws_from`.

        Raises:
            StateError: names the state and what was expected.
        """
        if state.kind in ITEM_KINDS:
            self.declare_items(state)

    @classmethod
    def no_rule(cls, state: State) -> StateError:
        """Return the error for a kind that the op has no rule for."""
        some = "" if state.kind in ITEM_KINDS else "an " if state.kind[0] in "aeiou" else "a "
        return StateError(
            f"{cls.name} has no rule for {some}{state.kind}; it has rules for: "
            f"{', '.join(cls.kinds())}. {remedy_of(state)}"
        )

    def __call__(self, *values: Value, stream: str | None = None, relative: bool = False) -> Any:
        """Apply the op to values of a pipeline: one decision for all of them.

        Calling the same instance again in one pipeline repeats its decision.

        Args:
            values: what it is applied to.
            stream: stream name; by default the op's name.
            relative: whether images and masks may differ in size from the first value, for
                which the decision is made: it is then scaled to their sides.

        Raises:
            BuildError: called without values, or outside a pipeline.
        """
        if not values or not all(isinstance(value, Value) for value in values):
            got = ", ".join(_named(value) for value in values) or "nothing"
            names = ", ".join(parameter.name for parameter in dataclasses.fields(self))
            remedy = f"; give parameters by name: {names}" if values and names else ""
            raise BuildError(
                f"{self.name}: expected fields of a sample inside a function decorated with "
                f"@pipeline, got {got}{remedy}"
            )
        results = values[0].tracer.apply(self, values, stream, relative=relative)
        return results[0] if len(results) == 1 else results
