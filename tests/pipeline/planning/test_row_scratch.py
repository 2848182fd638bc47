"""Scratch of an op whose parameters are values of the row: enough for every row, or refused."""

from types import SimpleNamespace
from typing import Annotated

import pytest

from stoker.ops import Kernel, Op, function, kernel, parameters
from stoker.ops.contract import registry
from stoker.ops.contract.states import State
from stoker.pipeline import pipeline
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.planning.steps import KernelStep
from stoker.protocol.errors import BuildError

STATES = {
    "image": State.fixed("image", "uint8", (8, 8, 3)),
    "count": State.fixed("scalar", "int32", ()),
}


@kernel
def copy(src, dst, params, record, scratch):
    dst[:] = src


def plain_copy(src, dst, params, record, scratch):
    dst[...] = src


def with_scratch(name, needs):
    """Return an op, and its function, that needs `needs(a, b)` bytes of scratch."""

    class Needy(Op):
        """Copies."""

        a: Annotated[int, parameters.Whole(0, 8), "a factor"] = 2
        b: Annotated[int, parameters.Whole(0, 8), "a factor"] = 2

        kernels = {"image": Kernel(copy, plain_copy)}  # noqa: RUF012

        def declare(self, states):
            self.require_kinds(states)
            return states, needs(self.a, self.b)

    Needy.name = name
    return function(registry.register_unlisted(Needy))


@pytest.fixture
def needy(monkeypatch):
    """Ops that are registered for one test: others look at all that are registered."""
    monkeypatch.setattr(registry, "_OPS", {**registry._OPS})
    monkeypatch.setattr(registry, "_UNLISTED", {*registry._UNLISTED})
    return SimpleNamespace(
        product=with_scratch("scratch_product", lambda a, b: 100 * a * b),
        apart=with_scratch("scratch_apart", lambda a, b: 100 * a * (8 - b)),
        peak=with_scratch("scratch_peak", lambda a, b: 100 * a * (8 - a)),
    )


def scratch_of(make):
    plan = bind(pipeline(make).graph(), STATES)
    return max(step.scratch_bytes for step in plan.steps if isinstance(step, KernelStep))


def test_two_values_of_a_row_have_scratch_for_both_at_their_ends(needy):
    assert scratch_of(lambda s: {"x": needy.product(s.image, a=s.count, b=s.count)}) == 100 * 8 * 8
    assert scratch_of(lambda s: {"x": needy.apart(s.image, a=s.count, b=s.count)}) == 100 * 8 * 8
    assert scratch_of(lambda s: {"x": needy.product(s.image, a=s.count, b=3)}) == 100 * 8 * 3


@pytest.mark.parametrize(("define", "message"), [
    (lambda needy: lambda s: {"x": needy.peak(s.image, a=s.count, b=1)},
     "parameter 'a' must be a constant: it decides the mem"),
    (lambda needy: lambda s, ctx: {"x": needy.product(s.image, a=s.count, b=ctx.epoch)},
     "decides the size or the memory of an op cannot follow"),
])  # fmt: skip
def test_scratch_that_two_rows_cannot_bound(needy, define, message):
    with pytest.raises(BuildError, match=message):
        scratch_of(define(needy))
