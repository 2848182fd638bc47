"""Replays for sessions: each computed by a one-off process, one at a time per session.

At most `concurrent_replays` run at a time, the others wait in order. When a session ends, its
replay ends too. A replay that takes longer than `replay_deadline_s` is ended, so that it cannot
block the others forever. A replay runs in its own process, so delivery does not slow down.
"""

from collections import OrderedDict

from stoker.protocol.errors import SampleError, UsageError
from stoker.protocol.messages import AskReplay
from stoker.server.state.core_context import CoreContext, error_record
from stoker.server.state.core_instructions import DropReplay, SendReplay, StartReplay
from stoker.server.state.events import ReplayEnded, ReplayFailed
from stoker.server.state.groups.group import Group
from stoker.server.work.work_records import ReplayRequest


class Replays:
    """All replays that run or wait."""

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self._numbers = 0
        self._waiting: OrderedDict[bytes, tuple[AskReplay, ReplayRequest]] = OrderedDict()
        self._running: dict[int, tuple[bytes, AskReplay, float]] = {}

    def __len__(self) -> int:
        """Return the number of replays that run or wait."""
        return len(self._waiting) + len(self._running)

    def ask(self, token: bytes, group: Group, record: AskReplay) -> None:
        """Start a replay for a session.

        Raises:
            UsageError: the stream has no such id or view, or a replay of the session is pending.
        """
        stream, run = group.stream, group.members[token].run
        spec = stream.spec
        rows = spec.epoch_rows if record.stored else spec.dataset_rows
        if record.id >= rows:
            raise UsageError(f"replay: expected an id from 0 to {rows - 1}, got {record.id}")
        if record.view >= spec.views:
            raise UsageError(
                f"replay: expected a view from 0 to {spec.views - 1}, got {record.view}"
            )
        if token in self._waiting or any(token == owner for owner, _, _ in self._running.values()):
            raise UsageError(
                "replay: expected one at a time per session, got a second one; wait for the first"
            )
        self._numbers += 1
        request = ReplayRequest(
            self._numbers, group.record.served, record.id, record.epoch, record.visit, record.view,
            tuple({*stream.crashed, *(run.crashed if run else ())}), stored=record.stored,
        )  # fmt: skip
        self._waiting[token] = record, request
        self._start()

    def ended(self, event: ReplayEnded) -> None:
        """Send a finished replay to its session."""
        owner = self._running.pop(event.replay, None)
        if owner is None:
            self._context.out.append(DropReplay(event.replay))
        else:
            token, record, _ = owner
            self._context.counts.replays += 1
            self._context.out.append(
                SendReplay(token, event.replay, record.request, event.size_bytes)
            )
        self._start()

    def failed(self, event: ReplayFailed) -> None:
        """Send the error of a failed replay to its session."""
        owner = self._running.pop(event.replay, None)
        if owner is not None:
            token, record, _ = owner
            self._context.counts.errors += 1
            error = error_record(event.code, event.message, event.details, record.request)
            self._context.send(token, error)
        self._start()

    def tick(self) -> None:
        """End replays that take too long; they are stored in the order in which they started."""
        limit = self._context.settings.replay_deadline_s
        for number, (token, record, began) in list(self._running.items()):
            if self._context.now - began < limit:
                break
            del self._running[number]
            error = SampleError(
                f"replaying sample {record.id} took longer than {limit:g} s and was ended; an op "
                "of the pipeline may hang on this sample",
                id=record.id,
            )
            self._context.send_error(token, error, record.request)
            self._context.out.append(DropReplay(number))
        self._start()

    def leave(self, token: bytes) -> None:
        """End the replay of a session that goes away."""
        self._waiting.pop(token, None)
        for number, (owner, _, _) in list(self._running.items()):
            if owner == token:
                del self._running[number]
                self._context.out.append(DropReplay(number))
        self._start()

    def _start(self) -> None:
        while self._waiting and len(self._running) < self._context.settings.concurrent_replays:
            token, (record, request) = self._waiting.popitem(last=False)
            self._running[request.replay] = token, record, self._context.now
            self._context.out.append(StartReplay(request))
