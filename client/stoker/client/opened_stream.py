"""Opening a stream: check the daemon's answer and map the slab.

Everything the daemon sends is compared with what the client can compute before it is used: the
stream id must be that of the spec, the outputs must fit the slot, the memory must be there.
"""

import dataclasses
import logging
import os
from collections.abc import Callable

from stoker.client.client_session import ClientSession
from stoker.client.progress import PipelineWait
from stoker.client.slab_map import SlabMap
from stoker.protocol.accounts import EpochAccount, epoch_account
from stoker.protocol.errors import ProtocolError, ResumeError, UsageError
from stoker.protocol.item_fields import COUNT
from stoker.protocol.messages import Open, Opened, Slab
from stoker.protocol.size_buckets import BucketSteps, tail_of
from stoker.protocol.slot_layout import SIZE, check_outputs, slot_layout
from stoker.protocol.spec import StreamSpec, differences

_log = logging.getLogger("stoker.client")

MIN_SLOTS = 2
_SETTINGS = {"crash_policy": "bad_samples.crash_policy", "integrity": "daemon.integrity"}
"""Fields of OPENED with the daemon's settings on which bytes may depend."""
_OF_STREAM = ("steps", "rows", "first_row", "outputs", "drawn", "buckets", "leftovers")
"""Fields of OPENED that are the same whenever a rank opens the same stream."""


@dataclasses.dataclass(frozen=True)
class StreamAnswer:
    """A stream that a daemon has opened: its answer, and the spec in it."""

    opened: Opened
    spec: StreamSpec


@dataclasses.dataclass(frozen=True)
class OpenedStream(StreamAnswer):
    """An open stream: the daemon's answer, the spec in it, and the memory."""

    slab: SlabMap


def open_stream(session: ClientSession, record: Open, timeout_s: float) -> OpenedStream:
    """Open a stream and map its slab.

    Raises:
        StokerError: the daemon refuses (a name, the pipeline, memory); it sent the error.
        ProtocolError: the daemon's answer contradicts itself.
        PeerError: the daemon went away or does not answer in time.
    """
    progress = PipelineWait(wanted=record.delivery.progress)
    try:
        opened, descriptor, slab = session.open_stream(record, timeout_s, progress)
        progress.opened(stored=not opened.notes)
    finally:
        progress.close()
    try:
        spec = _spec(opened)
        _check(opened, slab, own_memory=session.own_memory)
        for note in opened.notes:
            _log.warning("%s", note)
        return OpenedStream(
            opened,
            spec,
            SlabMap(descriptor, slab.slots, slab.slot_bytes, writable=slab.writable),
        )
    finally:
        os.close(descriptor)


def check_same(opened: Opened, spec: StreamSpec, now: StreamAnswer, where: str) -> None:
    """Check that a daemon which came back opened the same stream.

    Args:
        opened: the answer when the stream was opened first.
        spec: the spec in that answer.
        now: what the daemon has opened.
        where: the daemon, in words.

    Raises:
        ResumeError: it is another stream; the message says what changed.
    """
    changed = _changes(opened, spec, now)
    if changed:
        raise ResumeError(
            f"{where} came back with another stream, and to continue would change the data:\n  "
            + "\n  ".join(changed)
            + "\nstart it with the dataset and the pipeline that it had, or make a new Loader"
        )


def check_equal(first: StreamAnswer, where: str, other: StreamAnswer, there: str) -> None:
    """Check that two daemons opened the same stream.

    Args:
        first: what one opened.
        where: its address.
        other: what the other one opened.
        there: its address.

    Raises:
        UsageError: they differ; the message says in what.
    """
    changed = _changes(first.opened, first.spec, other)
    changed += [
        f"setting {setting}: was {before or 'not sent'}, is {now or 'not sent'}"
        for name, setting in _SETTINGS.items()
        if (before := getattr(first.opened, name)) != (now := getattr(other.opened, name))
    ]
    if changed:
        raise UsageError(
            f"the daemons at {where} and {there} have different streams, so their batches would not"
            " fit together:\n  " + "\n  ".join(changed) + "\nstart both with the same packed"
            " dataset, pipeline, version and settings, or leave one of them out",
            address=there,
        )


def _changes(opened: Opened, spec: StreamSpec, now: StreamAnswer) -> list[str]:
    """Return what differs between a stream and another one, one line each."""
    changed = differences(spec.to_data(), now.spec.to_data())
    return changed + [
        f"{name}: was {getattr(opened, name)}, is {getattr(now.opened, name)}"
        for name in _OF_STREAM
        if getattr(opened, name) != getattr(now.opened, name)
    ]


def steps_of(opened: Opened) -> Callable[[int], int]:
    """Return a function from an epoch to its number of steps.

    Raises:
        ProtocolError: the daemon contradicts itself about it.
    """
    arithmetic = bucket_steps(opened)
    if arithmetic is None:
        return lambda epoch: opened.steps
    steps = arithmetic.steps
    if steps(0) != opened.steps:
        raise ProtocolError(
            f"expected {steps(0)} steps in epoch 0, from the buckets, got {opened.steps}"
        )
    return steps


def bucket_steps(opened: Opened) -> BucketSteps | None:
    """Return the arithmetic of a stream's buckets; None without buckets.

    Raises:
        ProtocolError: the daemon opened an impossible stream.
    """
    if not opened.buckets:
        return None
    try:
        tail = tail_of(opened.spec["tail"], opened.leftovers)
    except UsageError as error:
        raise ProtocolError(f"the daemon opened an impossible stream: {error}") from None
    return BucketSteps(opened.buckets, tail)


def account_of(opened: Opened, epoch: int) -> EpochAccount | None:
    """Return the account of an epoch; None for a stream without buckets."""
    arithmetic = bucket_steps(opened)
    if arithmetic is None:
        return None
    excluded = opened.spec["dataset_rows"] - sum(bucket.samples for bucket in opened.buckets)
    return epoch_account(arithmetic, epoch, merged=opened.merged, excluded=excluded)


def _spec(opened: Opened) -> StreamSpec:
    try:
        spec = StreamSpec.from_data(opened.spec)
        check_outputs(tuple(opened.outputs))
    except UsageError as error:
        raise ProtocolError(f"the daemon opened an impossible stream: {error}") from None
    if spec.stream_id != opened.stream:
        raise ProtocolError(
            f"expected stream {spec.stream_id}, but the daemon opened {opened.stream}"
        )
    return spec


def _check(opened: Opened, slab: Slab, *, own_memory: bool) -> None:
    said = (opened.slab, opened.slots, opened.slot_bytes)
    # Others have the rest of the slots of a shared slab; a ring has more on purpose.
    shared = (own_memory or not slab.writable) and slab.slots >= opened.slots
    slots = opened.slots if shared else slab.slots
    if said != (slab.slab, slots, slab.slot_bytes):
        raise ProtocolError(f"expected the same slab in OPENED and SLAB, got {said} and {slab}")
    if opened.prefetch >= opened.slots:
        raise ProtocolError(
            f"expected fewer batches to prefetch than the {opened.slots} slots, got "
            f"{opened.prefetch}"
        )
    needed = 0  # with buckets every batch has its own layout, checked when it is announced
    if not opened.buckets:
        needed = slot_layout(tuple(opened.outputs), opened.rows).slot_bytes
    if opened.slots < MIN_SLOTS or opened.rows < 1 or needed > opened.slot_bytes:
        raise ProtocolError(
            f"expected at least {MIN_SLOTS} slots of {needed} bytes and 1 row, got {opened.slots} "
            f"slots of {opened.slot_bytes} bytes and {opened.rows} rows"
        )


def batch_names(opened: Opened) -> list[str]:
    """Return the names of the outputs of a batch, without those of sizes and counts."""
    return [o.name for o in opened.outputs if not o.name.endswith((f".{SIZE}", f".{COUNT}"))]
