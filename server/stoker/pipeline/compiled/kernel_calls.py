"""The calls of a program: functions of ops, and their arguments.

The machine calls draws as `draw(key, params, height, width, record)`, everything else as
`function(src, dst, params, record, last)`. `last` is scratch memory for kernels of images,
masks and arrays, and the note for functions made by `compiled.adapters`. A fold is called
for each of its values, `fold(src, place, count, dst, params, record, scratch)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from stoker.ops.contract.kernel_forms import no_draw, same_size
from stoker.ops.contract.op import EMPTY, Op
from stoker.ops.contract.states import State
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.points import MOVERS
from stoker.ops.kernels.vectors import TURNERS
from stoker.pipeline.compiled import adapters
from stoker.pipeline.graph.sites import NOWHERE, Site

_BYTES: Final = State.fixed("array", "uint8", (1,))


@dataclass(frozen=True)
class Call:
    """A function that the machine calls.

    Attributes:
        function: a kernel.
        form: "draw", "kernel", "fold" or "note"; see above.
        what: its role in the op, or what it does.
        op: name of the op; empty for functions that belong to none.
        rule: the op's own function, which `function` may adapt.
        parameters, record: dtypes of the op's.
        src, dst: states of source and destination; no meaning if nothing reads them.
        site: where the user wrote the op.
    """

    function: Callable[..., Any]
    form: str
    what: str
    op: str = ""
    rule: Callable[..., Any] | None = None
    parameters: np.dtype[Any] = EMPTY
    record: np.dtype[Any] = EMPTY
    src: State = _BYTES
    dst: State = _BYTES
    site: Site = NOWHERE

    def __str__(self) -> str:
        return f"{self.what} of {self.op}" if self.op else self.what


def draw_of(op: type[Op], site: Site = NOWHERE, items: State | None = None) -> Call | None:
    """Return the call of a draw; None: it draws nothing.

    Args:
        op: the op.
        site: where the user wrote it.
        items: state of the items or the mask that it decides from, if any.
    """
    if op.draw is no_draw:
        return None
    if items is None:
        return Call(op.draw, "draw", "draw", op.name, op.draw, op.parameters, op.record, site=site)
    return _note(op, adapters.draw_by, op.draw, "draw", site, items)


def kernel_of(op: type[Op], kind: str, src: State, dst: State, site: Site = NOWHERE) -> Call:
    """Return the call of a kernel of images, masks or arrays."""
    run, dtypes = op.kernel_of(kind, src.dtype).run, (op.parameters, op.record)
    return Call(run, "kernel", f"{kind} kernel", op.name, run, *dtypes, src, dst, site)


def fold_of(op: type[Op], kind: str, src: State, dst: State, site: Site = NOWHERE) -> Call:
    """Return the call of a fold; `src` is the state of each value."""
    run, dtypes = op.fold_of(kind, src.dtype).run, (op.parameters, op.record)
    return Call(run, "fold", f"{kind} kernel", op.name, run, *dtypes, src, dst, site)


def size_of(op: type[Op], site: Site = NOWHERE) -> Call | None:
    """Return the call of `out_size`; None: the op keeps the size, so nothing is called."""
    if op.out_size is same_size:
        return None
    return _note(op, adapters.size_by, op.out_size, "out_size", site)


def reads_of(op: type[Op]) -> Call:
    """Return the call of `reads`, of an op that has it."""
    return _note(op, adapters.box_by, _there(op.reads), "reads")


def rescale_of(op: type[Op], site: Site = NOWHERE) -> Call:
    """Return the call of `rescale`, of an op that has it."""
    return _note(op, adapters.rescale_by, _there(op.rescale), "rescale", site)


def forward_of(op: type[Op], site: Site = NOWHERE) -> Call:
    """Return the call of `forward`, of an op that has it."""
    return _note(op, adapters.map_by, _there(op.forward), "forward", site)


def items_of(op: type[Op], kind: str, src: State, dst: State, site: Site = NOWHERE) -> Call:
    """Return the call of an op's own kernel of boxes or keypoints."""
    kernel = op.items[kind]
    template = adapters.items_by_word if kernel.visible else adapters.items_by
    return _note(op, template, kernel.run, f"{kind} kernel", site, src, dst)


def move_of(kind: str, state: State) -> Call:
    """Return the call that moves boxes or keypoints by the map that an op gave."""
    return own(adapted(adapters.move_by, MOVERS[kind]), f"move {kind}", state, state)


def turn_of(kind: str, src: State, dst: State) -> Call:
    """Return the call that turns the components of a vector field by the map that an op gave."""
    made = adapted(adapters.turn_by, TURNERS[kind].run)
    return own(made, f"turn {kind}", src, dst)


def own(template: Callable[..., Any], what: str, src: State, dst: State) -> Call:
    """Return the call of a function that belongs to no op."""
    return Call(template, "note", what, src=src, dst=dst)


def _note(
    op: type[Op],
    template: Callable[..., Any],
    rule: Callable[..., Any],
    what: str,
    site: Site = NOWHERE,
    src: State = _BYTES,
    dst: State = _BYTES,
) -> Call:
    made = adapted(template, rule)
    return Call(made, "note", what, op.name, rule, op.parameters, op.record, src, dst, site)


def _there(rule: Callable[..., Any] | None) -> Callable[..., Any]:
    assert rule is not None, "only rules that an op defines are called"
    return rule
