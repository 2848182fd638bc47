"""Pipelines as one list of steps per field, and the two ways to synchronize lists.

    flip = ops.HorizontalFlip()
    train = pipelines({
        "image": [sync_seed("crop"), ops.RandomResizedCrop(224), ops.ColorJitter(0.2), flip],
        "mask": [sync_seed("crop"), ops.RandomResizedCrop(224), flip],
    })

A step is an op, or a function of one value. Stream names: an instance that is in several lists
makes one decision, named after the op. An op after `sync_seed(name)` draws from `name/op`, so the
same op with the same parameters decides once for all lists with that mark. Every other op draws
from `field/op`, independent of other fields. Inserting a step does not change the draws of others.

The lists are traced immediately, so an error names the line that wrote them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from stoker.ops.contract.op import Op
from stoker.pipeline.authoring.pipeline import Pipeline
from stoker.pipeline.tracing.naming import scope
from stoker.pipeline.tracing.rewrite import rewritten
from stoker.pipeline.tracing.value_refusals import fault
from stoker.pipeline.tracing.values import TracedSample, TracedValue
from stoker.protocol.slot_layout import reserved


class SyncSeed(NamedTuple):
    """A mark in a list: the steps after it draw like those after the same mark in other lists.

    `relative` is passed to the ops after it, see `stoker.ops.contract.op.Op.__call__`.
    """

    name: str
    relative: bool = False


ListedStep = Op | Callable[[Any], Any] | SyncSeed
Lists = Mapping[str, Sequence[ListedStep] | None]


def sync_seed(name: str, *, relative: bool = False) -> SyncSeed:
    """Return a mark for `pipelines`: the ops after it share their decisions with other lists.

    Args:
        name: of the mark, first part of the stream names after it; a list may have several marks.
        relative: whether the field of this list may differ in size from that of the first list
            with this mark: its decisions then apply here in proportion to the sides.

    Raises:
        BuildError: the name is not a string.
    """
    if not isinstance(name, str) or not name.strip("/"):
        raise fault(f"sync_seed: expected a name such as 'crop', got {name!r}")
    return SyncSeed(name, relative)


def pipelines(lists: Lists) -> Pipeline:
    """Make a pipeline from a list of steps per field; outputs are named like the fields.

    Args:
        lists: field -> steps, run in order. An empty list delivers the field unchanged,
            None leaves it out.

    Raises:
        BuildError: a step is invalid, or two ops would share a stream by accident.
    """
    if not isinstance(lists, Mapping) or not all(_is_list(steps) for steps in lists.values()):
        raise fault(f"pipelines: expected a dict of fields and lists of steps, got {lists!r}")
    for field in lists:
        if isinstance(field, str) and (why := reserved(field)):
            raise fault(
                f"pipelines: field {field!r}: {why}, as a function under @pipeline can: "
                f'{{"other_name": sample["{field}"]}}'
            )
    in_lists = Counter(
        instance for steps in lists.values() for instance in {id(s) for s in steps or ()}
    )
    shared = {instance for instance, count in in_lists.items() if count > 1}

    def define(sample: TracedSample) -> dict[str, TracedValue]:
        names: dict[str, Op] = {}
        return {
            field: _through(field, steps, sample[field], shared, names)
            for field, steps in lists.items()
            if steps is not None
        }

    made = Pipeline.from_function(define, "pipelines")
    made.graph()
    return made


def _is_list(steps: object) -> bool:
    return steps is None or isinstance(steps, list | tuple)


def _through(
    field: str, steps: Sequence[ListedStep], value: Any, shared: set[int], names: dict[str, Op]
) -> Any:
    """Apply the steps of a field; `names` has the streams of shared instances of all fields."""
    mark: str | None = None
    relative = False
    own: dict[str, Op] = {}
    for number, step in enumerate(steps):
        where = f"field {field!r}, step {number}"
        if isinstance(step, SyncSeed):
            mark, relative = step.name, step.relative
        elif isinstance(step, Op):
            alone = mark is None and id(step) in shared
            stream = step.name if alone else f"{mark or field}/{step.name}"
            taken = (names if alone else own).setdefault(stream, step)
            if step.random and taken is not step:
                raise fault(
                    f"pipelines: {where}: {step.name} would draw from stream {stream!r}, as "
                    f"another {step.name} does. Put sync_seed('...') with a name of its own before "
                    f"it, or use one instance to repeat a decision",
                    stream=stream,
                )
            value = step(value, stream=stream if step.random else None, relative=relative)
        elif callable(step):
            with scope(mark or field):
                value = rewritten(step)(value)
        else:
            raise fault(
                f"pipelines: {where}: expected an op, a function of a value, or sync_seed(name), "
                f"got {type(step).__name__}"
            )
        if not isinstance(value, TracedValue):
            raise fault(f"pipelines: {where}: expected one value back, got {type(value).__name__}")
    return value
