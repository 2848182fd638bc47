"""Schedules of a stream: whether its ops accept their values, before the first row.

A schedule that leaves an op's range in some later epoch should not be found there. So when a stream
opens, every schedule is tried at the first and last step of up to 33 epochs, evenly spaced over the
training, its first and last among them. Runs in workers and in the reference.
"""

from collections.abc import Iterator

from stoker.order.stream_order import StreamOrder
from stoker.pipeline.engine.following import check_schedules
from stoker.pipeline.graph.schedule import Moment
from stoker.pipeline.planning.plan import Plan
from stoker.protocol.spec import StreamSpec

GAPS = 32


def try_schedules(plan: Plan, spec: StreamSpec, order: StreamOrder) -> None:
    """Try the schedules of a plan over the length of a stream.

    Raises:
        BuildError: an op refuses its parameters somewhere; names the user's line and the place.
    """
    if any(decision.schedule for decision in plan.decisions):
        check_schedules(plan, _places(spec, order))


def _places(spec: StreamSpec, order: StreamOrder) -> Iterator[Moment]:
    last = (spec.total_epochs or 1) - 1
    for epoch in sorted({last * part // GAPS for part in range(GAPS + 1)}):
        for step in sorted({0, order.steps(epoch) - 1}):
            yield Moment(epoch, step, order.progress(epoch, step))
