"""Samples that do not fit their plan: status numbers of the engines as typed errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stoker.ops.custom.foreign import CallError
from stoker.protocol.errors import BuildError, SampleError

if TYPE_CHECKING:
    from stoker.pipeline.graph.sites import Site
    from stoker.pipeline.planning.decision import Decision
    from stoker.pipeline.planning.plan import Plan
    from stoker.rng.row import Row

Sides = tuple[int, int]
Found = tuple[int | float, int]
TOO_LONG: Final = "too_long"
"""Detail of the error for a good sample that is longer than the rows of its batch."""


def sample_error(plan: Plan, row: Row, status: int, got: Found, other: Sides) -> SampleError:
    """Return the error that a status means.

    Args:
        plan: the plan that ran.
        row: the row that failed.
        status: index into the plan's checks, plus 1.
        got: height and width found; for "items" the numbers of items after and before the kernel;
            for "element" the index and the side; for "fits", "number" and "integer" the number.
        other: for "same_size", "relative", "ratio" and "same_shape" the size of the second value,
            for "padded"
            that of the batch, else unused.
    """
    check = plan.checks[status - 1]
    text = f"{check.what}{_said(check.kind, got, other)}"
    return SampleError(
        f"sample {row.id}: {check.site}: {text}",
        id=row.id,
        epoch=row.epoch,
        seed=row.seed,
        field=check.field,
        file=check.site.file,
        line=check.site.line,
        **({TOO_LONG: True} if check.kind == "padded" else {}),
    )


def _said(kind: str, got: Found, other: Sides) -> str:
    """Return what is said about the sizes or numbers of a row, after what they are of."""
    found, second = f"{got[0]}x{got[1]}", f"{other[0]}x{other[1]}"
    one_size = (
        ": expected one height and width for fields that are transformed together, got "
        f"{found} and {second}"
    )
    said = {
        "input": (
            f", but this sample's size is {found}: the dataset's index does not fit its data"
        ),
        "same_size": one_size,
        "relative": f"{one_size}. If that is intended, call the op with relative=True",
        "ratio": (
            ": with relative=True, expected the same ratio of height to width up to rounding, got "
            f"{found} and {second}"
        ),
        "element": f": index {got[0]} is out of bounds: that side has {got[1]} elements",
        "same_shape": f": expected arrays of one shape, got {found} and {second}",
        "fits": f": {got[0]} does not fit",
        "items": (
            f": the op's kernel returned {got[0]} items for {got[1]}; it may keep or drop items, "
            "not add any"
        ),
        "padded": (
            f"; this row's is {found}, and the rows of its batch have room for {second}: only a "
            "substitute that is not longer can take a place in it"
        ),
        "out_size": f" gives a size of {found}, which is out of the bounds it declared",
        "number": f", got {got[0]}",
        "integer": f", got {got[0]}",
        "absent": "",
    }
    return said[kind]


def call_error(row: Row, failure: BaseException, **details: int) -> BaseException:
    """Return the error for a user's function that failed on a row; interrupts pass through."""
    if not isinstance(failure, CallError):
        return failure
    return SampleError(
        f"sample {row.id}: {failure}",
        **{"id": row.id, "epoch": row.epoch, "seed": row.seed, "view": row.view, **details},
    )


def kernel_error(
    decision: Decision,
    what: str,
    fn: Callable[..., Any],
    row: Row,
    fault: str,
    remedy: str,
    site: Site | None = None,
) -> BuildError:
    """Return the error for a function of an op that broke the rules on a row.

    Args:
        decision: the decision whose function it is.
        what: the role of the function, such as "draw" or "image kernel".
        fn: the function.
        row: the row.
        fault: the violation, in words.
        remedy: what to change.
        site: where the user wrote the call; by default the site of the decision.
    """
    code, name, site = getattr(fn, "__code__", None), decision.op.name, site or decision.site
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return BuildError(
        f"{site}: op {name!r}: its {what}{place} {fault}, at sample {row.id}, epoch {row.epoch}, "
        f"seed {row.seed}. {remedy}",
        op=name,
        id=row.id,
        epoch=row.epoch,
        seed=row.seed,
        file=site.file,
        line=site.line,
    )


def raised_error(plan: Plan, error: Exception) -> BuildError:
    """Return the error for a kernel whose machine code raised, which is not allowed."""
    ops = sorted(
        {d.op.name for d in plan.decisions if not type(d.op).__module__.startswith("stoker.")}
    )
    return BuildError(
        f"a kernel of the pipeline raised {type(error).__name__}: {error}. A kernel must not "
        "raise, and must stay inside its arrays. User kernels: "
        f"{', '.join(ops) or 'none'}; the interpreter (compiled=False) shows the line",
    )
