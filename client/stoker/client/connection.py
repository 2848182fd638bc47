"""Everything that a loader holds, acquired in order and released in the reverse order.

That is the private daemon, the session, the memory and the device. It does not refer to the loader,
so a forgotten loader is closed by its finalizer, at the latest when the interpreter exits. A forked
child releases nothing: everything belongs to the parent.
"""

import contextlib
import os
import time

from stoker.client.address import check_dataset, is_address
from stoker.client.delivery import Delivery
from stoker.client.device import BatchSource, Target
from stoker.client.lease import LeaseBook
from stoker.client.opening import OpenedStream, open_stream
from stoker.client.options import Options
from stoker.client.private import PrivateDaemon
from stoker.client.session import ClientSession
from stoker.client.statistics import Statistics
from stoker.protocol.errors import UsageError
from stoker.protocol.replay import Replay, replay_from_bytes


class Connection:
    """An open stream with everything that belongs to it.

    Attributes:
        stream: the daemon's answer, the spec, the memory.
        book: the slots that the caller holds.
        delivery: the announced batches.
        source: gives batches on the caller's device.
        delivered: batches given to the caller, counted by the loader.
    """

    stream: OpenedStream
    book: LeaseBook
    delivery: Delivery
    source: BatchSource

    def __init__(
        self,
        address_or_path: str | os.PathLike[str],
        options: Options,
        target: Target,
        *,
        workers: int | None,
        connect_timeout_s: float,
        timeout_s: float,
    ) -> None:
        """Connect, open the stream and map it.

        Raises:
            StokerError: as in `Loader`.
        """
        self._pid = os.getpid()
        self._last: Statistics | None = None
        self.delivered = 0
        with contextlib.ExitStack() as undo:
            if is_address(address_or_path):
                record = options.record(target.leases)
                _refuse_workers(address_or_path, workers)
                session = ClientSession(str(address_or_path), connect_timeout_s)
            else:
                daemon = PrivateDaemon(check_dataset(address_or_path), options, workers)
                record = daemon.options.record(target.leases)
                undo.callback(daemon.close)
                session = daemon.connect(time.monotonic() + connect_timeout_s)
            undo.callback(session.close)
            self._session, self._timeout_s = session, timeout_s
            self.stream = open_stream(session, record, timeout_s)
            self.book = LeaseBook(self.stream.slab)
            self.delivery = Delivery(
                session, self.book, self.stream.opened, options.prefetch, timeout_s
            )
            self.source = target.source(self.delivery, self.stream.slab)
            undo.callback(self.source.close)
            self._undo = undo.pop_all()

    def close(self) -> None:
        """Release everything; does nothing a second time, or in a forked child.

        The memory stays mapped until the last of the caller's arrays in it dies.
        """
        if os.getpid() != self._pid or self._last is not None:
            return
        self._last = self.statistics()
        try:
            self._undo.close()
        finally:
            del self.source, self.delivery, self.book, self.stream, self._session

    def replay(self, place: tuple[int, int, int, int]) -> Replay:
        """Return the replay of (id, epoch, visit, view); see `Loader.replay`."""
        return replay_from_bytes(self._session.ask_replay(place, self._timeout_s))

    def statistics(self) -> Statistics:
        """Return the counters; after `close`, their values at that moment."""
        if self._last is not None:
            return self._last
        return Statistics(
            delivered=self.delivered,
            copied=self.book.copied,
            waits=self.delivery.waits,
            wait_s=self.delivery.wait_s,
            leased=self.book.leased,
            slots=self.stream.slab.slots,
        )


def _refuse_workers(address: object, workers: int | None) -> None:
    if workers is not None:
        raise UsageError(
            f"workers={workers!r}: the daemon at {address} sets its own number (stoker serve "
            "--workers); workers= works only with the path of a dataset"
        )
