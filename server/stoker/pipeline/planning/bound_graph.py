"""State shared by the binding passes, and their errors.

One `BoundGraph` is shared by the parts of binding: sizes, ops, joins and outputs. Errors name the
user's file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeVar

from stoker.ops.contract.states import State
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import number_nodes
from stoker.pipeline.graph.sites import Site
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.mixes import Mix
from stoker.pipeline.planning.plan import Check
from stoker.pipeline.planning.steps import Step
from stoker.protocol.errors import BuildError, StokerError
from stoker.protocol.slot_layout import Output

T = TypeVar("T")
FIXERS: Final = "resize, center_crop, random_crop or random_resized_crop"
"""Ops that give a value one size, for messages."""


class BoundGraph:
    """A graph whose values get states and whose nodes become steps.

    Attributes:
        graph: the normal form.
        given: field name -> state of the dataset's field.
        fields: field name -> value number.
        states: value number -> state.
        decisions, checks, outputs, stores, steps, mixes: see `Plan`.
        made_by: value number -> name of the op that made it.
        lines_of: value that the graph does not have -> the value whose line messages name.
        registers: values that are scalars in registers: constants, expressions, joins of scalars.
    """

    def __init__(self, graph: Graph, given: Mapping[str, State]) -> None:
        self.graph = graph
        self.given = given
        self.fields: dict[str, int] = {}
        self.states: dict[int, State] = {}
        self.decisions: list[Decision] = []
        self.checks: list[Check] = []
        self.outputs: list[Output] = []
        self.stores: list[int] = []
        self.steps: tuple[Step, ...] = ()
        self.mixes: tuple[Mix, ...] = ()
        self.registers: set[int] = set()
        self.made_by: dict[int, str] = {}
        self.lines_of: dict[int, int] = {}
        self.next = number_nodes(graph.nodes, 0)[1]

    def new_value(self, like: int) -> int:
        """Return the number of a value that the graph does not have; it has the line of `like`."""
        self.next += 1
        self.lines_of[self.next - 1] = like
        return self.next - 1

    def site(self, value: int) -> Site:
        """Return where the user wrote the node that a value comes from."""
        while value in self.lines_of:
            value = self.lines_of[value]
        return self.graph.site(value)

    def scalar(self, value: int, kind: type | str) -> None:
        """Give a value the state of a scalar in a register; `kind` is a Python type or a dtype."""
        names: dict[type, str] = {bool: "bool", int: "int64", float: "float64"}
        dtype = kind if isinstance(kind, str) else names[kind]
        self.states[value] = State.fixed("scalar", dtype, ())
        self.registers.add(value)

    def check(self, kind: str, what: str, value: int, field: str | None = None) -> int:
        """Add a check; return the status of a row that fails it."""
        self.checks.append(Check(kind, what, field, self.site(value)))
        return len(self.checks)

    def fail(self, value: int, message: str, **details: str) -> NoReturn:
        """Raise a BuildError at the line that made a value."""
        site = self.site(value)
        raise BuildError(f"{site}: {message}", file=site.file, line=site.line, **details)

    def within(self, value: int, what: str, body: Callable[[], T]) -> T:
        """Run a check of an op; its errors are prefixed with the user's line."""
        site = self.site(value)
        try:
            return body()
        except StokerError as error:
            message = f"{site}: {what}: {error.message}"
            raise type(error)(
                message, **{"file": site.file, "line": site.line, **error.details}
            ) from None

    def named(self, value: int) -> str:
        """Return how a message names a value: its field, or its kind and line."""
        names = [name for name, number in self.fields.items() if number == value]
        return (
            f"field {names[0]!r}"
            if names
            else f"the {self.states[value].kind} from line {self.site(value).line}"
        )
