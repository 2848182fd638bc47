"""The daemon that serves a loader, and its stream there: opened, opened again after a loss, closed.

With `reconnect_s`, the loss of the daemon costs the caller only time: the lost stream is closed,
the same OPEN is sent to the daemon that comes back (a private one is started), and the call that
failed is done again. A stream is its spec, so its batches are the same bytes; a daemon that opens
another one is refused. Only faults that time can heal are retried: silence, no daemon at the
address, a daemon that dies again, memory that its predecessor's clients still hold.

A forgotten loader is closed by its finalizer, which refers to this object and not to the loader. A
forked child releases nothing: everything belongs to the parent.
"""

import contextlib
import dataclasses
import logging
import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from stoker.client.address import check_dataset, is_address
from stoker.client.batch_delivery import Delivery, forget_from
from stoker.client.client_session import Asked, ClientSession
from stoker.client.daemon_stream import DaemonStream, Taken
from stoker.client.device import BatchSource, Target
from stoker.client.lease import LeaseBook
from stoker.client.loader_statistics import Statistics
from stoker.client.opened_stream import OpenedStream, check_same
from stoker.client.options.argument_records import Connection
from stoker.client.private.private_daemon import PrivateDaemon
from stoker.client.remote.loader_keys import resolve_keys
from stoker.client.remote.remote_session import session_at
from stoker.client.remote.watch import HandshakeError
from stoker.client.retrying import Outage, connect_with_retries
from stoker.protocol.descriptors import too_few_threads
from stoker.protocol.errors import (
    ConnectError,
    DaemonLostError,
    PeerError,
    ResourceError,
    StokerError,
    TryAgainError,
    UsageError,
)
from stoker.protocol.messages import Open, Opened, Status
from stoker.protocol.remote.tcp import SCHEME
from stoker.protocol.replayed_row import Replay, replay_from_bytes
from stoker.protocol.spec import StreamSpec

_log = logging.getLogger("stoker.client")
STATUS_S: Final = 2.0
"""Time limit for a STATUS, which only explains something."""
_LOST: Final = (DaemonLostError,)
LOST_OR_SILENT: Final = (DaemonLostError, PeerError)
PASSING: Final = (
    PeerError, ConnectError, DaemonLostError, HandshakeError, ResourceError, TryAgainError,
)  # fmt: skip
"""Faults that may pass while a daemon comes back. All are compared by exact type."""
Done = TypeVar("Done")


class DaemonConnection:
    """An open stream with everything that belongs to it.

    Attributes:
        crashed: samples that are replaced because they crashed workers; see `Delivery`.
        delivered: batches given to the caller, counted by the loader.
    """

    def __init__(
        self,
        address_or_path: str | os.PathLike[str],
        request: Open,
        target: Target,
        options: Connection,
        *,
        workers: int | None,
        name: str = "",
        crashed: dict[int, tuple[int, int]] | None = None,
    ) -> None:
        """Connect, open the stream and map it.

        The connections of a loader with several daemons share `crashed`. `name` is the loader's.

        Raises:
            StokerError: as in `Loader`.
        """
        self._keys = resolve_keys(os.fspath(address_or_path), options.key, options.daemon_key)
        self._pid = os.getpid()
        self._name = name
        self._last: Statistics | None = None
        self._before = Statistics(0, 0, 0, 0.0, 0, 0)
        self._target = target
        self._connect_timeout_s = options.connect_timeout_s
        self._timeout_s = options.timeout_s
        self._reconnect_s = options.reconnect_s
        self._daemon_stream: DaemonStream | None = None
        self._first: tuple[Opened, StreamSpec] | None = None
        self._outage: Outage | None = None
        self._was_lost = False
        self._daemon: PrivateDaemon | None = None
        self.crashed = {} if crashed is None else crashed
        self.delivered = 0
        if is_address(address_or_path):
            self._address = str(address_or_path)
            self._record = request
            _refuse_workers(address_or_path, workers)
        else:
            path = check_dataset(address_or_path)
            self._daemon = PrivateDaemon(path, request, workers, meanwhile=target.load, name=name)
            self._record = self._daemon.request
        try:
            self._daemon_stream = self._begin()
            self._first = self._daemon_stream.stream.opened, self._daemon_stream.stream.spec
        except BaseException:
            self._leave_daemon()
            raise

    @property
    def daemon_stream(self) -> DaemonStream:
        """The open stream at the daemon.

        Raises:
            DaemonLostError: no stream is open, because the daemon was lost.
        """
        if self._daemon_stream is None:
            raise DaemonLostError(f"{self._where} was lost, and the stream is not open")
        return self._daemon_stream

    @property
    def prefetch(self) -> int:
        """Number of batches that the daemon prepares ahead; after a loss it stays the same."""
        assert self._first is not None
        return self._first[0].prefetch or self._record.delivery.prefetch

    @property
    def stream(self) -> OpenedStream:
        """The daemon's answer, the spec, the memory."""
        return self.daemon_stream.stream

    @property
    def book(self) -> LeaseBook:
        """The slots of the current memory that the caller holds."""
        return self.daemon_stream.book

    @property
    def delivery(self) -> Delivery:
        """The announced batches."""
        return self.daemon_stream.delivery

    @property
    def source(self) -> BatchSource:
        """Gives batches on the caller's device."""
        return self.daemon_stream.source

    def take(self, epoch: int, step: int) -> Taken:
        """Return a batch; waits for it, and with `reconnect_s` also for a daemon.

        Raises:
            StokerError: as in `Delivery.take`.
            ResumeError: the daemon came back with another stream.
        """

        def take(current: DaemonStream) -> Taken:
            if self._was_lost:  # what only later batches replace is news of those the caller lacks
                forget_from(self.crashed, (epoch, step))
                self._was_lost = False
            return current.take(epoch, step)

        return self._use(take, LOST_OR_SILENT)

    def release(self) -> None:
        """Return the slots whose arrays died, if the stream is open."""
        if self._daemon_stream is not None:
            self._daemon_stream.delivery.release()

    def replay(self, asked: Asked) -> Replay:
        """Return what a replay request asks for; see `Loader.replay`."""
        return replay_from_bytes(
            self._use(lambda current: current.session.ask_replay(asked, self._timeout_s), _LOST)
        )

    def statistics(self) -> Statistics:
        """Return the counters; after `close`, their values at that moment."""
        if self._last is not None:
            return self._last
        if self._daemon_stream is None:
            return dataclasses.replace(self._before, delivered=self.delivered)
        delivery, book, before = (
            self._daemon_stream.delivery,
            self._daemon_stream.book,
            self._before,
        )
        return Statistics(
            delivered=self.delivered,
            copied=before.copied + book.copied,
            waits=before.waits + delivery.waits,
            wait_s=before.wait_s + delivery.wait_s,
            leased=book.leased,
            slots=book.slots,
            reconnects=before.reconnects,
        )

    def status(self) -> Status | None:
        """Return the daemon's STATUS, in a session of its own; None if it gives none."""
        if self._daemon_stream is None:
            return None
        try:
            with contextlib.closing(self._connect(STATUS_S, None)) as session:
                return session.ask_status(STATUS_S)
        except StokerError:
            return None

    @property
    def is_remote(self) -> bool:
        """True if batches come over a network."""
        return self._daemon is None and self._address.startswith(SCHEME)

    def close(self) -> None:
        """Release everything; does nothing a second time, or in a forked child.

        The memory stays mapped until the last of the caller's arrays in it dies.
        """
        if os.getpid() != self._pid or self._last is not None:
            return
        self._last = self.statistics()
        current, self._daemon_stream = self._daemon_stream, None
        try:
            if current is not None:
                current.close()
        finally:
            self._leave_daemon()

    @property
    def _where(self) -> str:
        """The daemon, in words."""
        return "the private daemon" if self._daemon else f"the daemon at {self._address}"

    def _leave_daemon(self) -> None:
        if self._daemon is not None:
            self._daemon.close()

    def _open(self, connect_s: float, open_s: float, start_s: float | None = None) -> DaemonStream:
        try:
            return DaemonStream(
                lambda: self._connect(connect_s, start_s),
                self._record, self._target, self._timeout_s, open_s=open_s, crashed=self.crashed,
            )  # fmt: skip
        except RuntimeError as error:
            if "thread" not in str(error):
                raise
            raise too_few_threads("a Loader") from error

    def _connect(self, connect_s: float, start_s: float | None) -> ClientSession:
        if self._daemon is None:
            address, keys, name = self._address, self._keys, self._name
            return connect_with_retries(
                lambda left_s: session_at(address, left_s, keys, name), connect_s
            )
        return self._daemon.connect(time.monotonic() + connect_s, start_s)

    def _begin(self) -> DaemonStream:
        """Open the stream for the first time; a daemon that dies meanwhile may come back."""
        try:
            return self._open(self._connect_timeout_s, self._timeout_s)
        except PeerError as error:
            if self._reconnect_s is None or type(error) not in LOST_OR_SILENT:
                raise
            self._note_loss(error)
        current = self._reconnect()
        self._end_outage()
        return current

    def _use(
        self, action: Callable[[DaemonStream], Done], losses: tuple[type[PeerError], ...]
    ) -> Done:
        """Do something with the open stream; after a loss, once more with a new one.

        Args:
            action: what to do.
            losses: errors that mean that the daemon is lost.
        """
        if self._outage is not None and self._outage.over:
            self._outage.begin()  # for this call
        while True:
            current = self._daemon_stream or self._reconnect()
            try:
                done = action(current)
            except StokerError as error:
                if self._reconnect_s is None or type(error) not in losses:
                    self._outage = None  # the daemon answered
                    raise
                self._lose(current, error)
            else:
                if self._outage is not None:
                    self._end_outage()
                return done

    def _lose(self, current: DaemonStream, error: StokerError) -> None:
        """Close the stream of a lost daemon; keep its counters."""
        self._note_loss(error)
        totals = dataclasses.replace(self.statistics(), leased=0, slots=0)
        self._before, self._daemon_stream = totals, None
        self._was_lost = True
        current.close()

    def _note_loss(self, error: StokerError) -> None:
        if self._outage is not None:
            self._outage.failed(error)
            return
        assert self._reconnect_s is not None
        self._outage = Outage(error, self._reconnect_s)
        _log.warning(
            "%s was lost: trying for up to %g s to open the stream again", self._where,
            self._reconnect_s,
        )  # fmt: skip

    def _end_outage(self) -> None:
        assert self._outage is not None
        _log.warning("the stream goes on, after %.1f s without a daemon", self._outage.elapsed_s)
        self._outage = None

    def _reconnect(self) -> DaemonStream:
        """Open the stream again, as often as it takes.

        Raises:
            DaemonLostError: the time is up.
            ResumeError: the daemon opened another stream.
            StokerError: the daemon refuses, for a reason that will not pass.
        """
        outage = self._outage
        assert outage is not None  # no stream is open, so it was lost
        if self.delivered:
            self._record = begun_already(self._record)
        while outage.begin_attempt():
            left_s = outage.left_s
            try:
                current = self._open(min(self._connect_timeout_s, left_s), left_s, left_s)
            except StokerError as error:
                if type(error) not in PASSING:
                    raise
                outage.failed(error)
                continue
            self._check_same(current)
            counted = self._before
            self._before = dataclasses.replace(counted, reconnects=counted.reconnects + 1)
            self._daemon_stream = current
            return current
        raise outage.error(self._where)

    def _check_same(self, current: DaemonStream) -> None:
        if self._first is None:
            return
        try:
            check_same(*self._first, current.stream, self._where)
        except BaseException:
            current.close()
            raise


def begun_already(record: Open) -> Open:
    """Say in a request that the members of its group have begun, so the daemon waits for none."""
    group, delivery = record.delivery.group, record.delivery
    if group is None:
        return record
    group = msgspec.structs.replace(group, begun=True)
    return msgspec.structs.replace(record, delivery=msgspec.structs.replace(delivery, group=group))


def _refuse_workers(address: object, workers: int | None) -> None:
    if workers is not None:
        raise UsageError(
            f"workers={workers!r}: the daemon at {address} sets its own number (stoker serve "
            "--workers); workers= works only with the path of a dataset"
        )
