"""A stream from several daemons: each batch has one owner, and is the same from any of them.

`protocol.remote.shares` says which daemon makes which batch. Each has a connection of its own, on
which SEEK carries its share, so each computes its batches ahead while others' batches are taken. If
a daemon is lost, or one comes, the shares change: every connection begins a new run at the next
batch that the caller asks for, and computes again what it had computed ahead. No batch is lost or
given twice, because only this object knows which one is next.

Runs in the caller's thread; `Returns` has a thread for daemons that were lost, and `Watch` has one
for a directory.
"""

import dataclasses
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from stoker.client.batch_delivery import forget_from
from stoker.client.client_session import Asked
from stoker.client.connection import LOST_OR_SILENT, DaemonConnection
from stoker.client.daemon_stream import Taken
from stoker.client.hosts.directory import Directory, Watch, check_addresses
from stoker.client.hosts.returns import Returns
from stoker.client.loader_statistics import Statistics
from stoker.client.opened_stream import StreamAnswer, check_equal, steps_of
from stoker.protocol.descriptors import check_threads
from stoker.protocol.errors import AccessError, DaemonLostError, StokerError, UsageError
from stoker.protocol.messages import Status
from stoker.protocol.remote.shares import HostShare, Place, host_key
from stoker.protocol.replayed_row import Replay

_log = logging.getLogger("stoker.client")
SLICE_S: Final = 0.5
_GONE: Final = (*LOST_OR_SILENT, AccessError)
"""Errors of one daemon whose batches the others can make; compared by exact type."""
_NOTHING: Final = Statistics(0, 0, 0, 0.0, 0, 0)


class Fleet:
    """Several connections with one stream.

    Attributes:
        stream: the answer of the daemon that was first when all were opened, and its spec.
        crashed: samples that are replaced because they crashed workers; see `Delivery`.
        delivered: batches given to the caller, counted by the loader.
    """

    def __init__(
        self,
        addresses: Sequence[object] | Directory,
        connect: Callable[[str, dict[int, Place], bool], DaemonConnection],
        *,
        rank: int,
        reconnect_s: float | None,
        group: str | None = None,
    ) -> None:
        """Open the stream at all of them.

        Args:
            addresses: of the daemons, or the directory that has them.
            connect: opens the stream at one; the second argument is `crashed`, the third whether
                it is open at others already.
            rank: of the client.
            reconnect_s: how long to wait when all daemons are lost; None: not at all.
            group: the name of its group; None without a group.

        Raises:
            UsageError: the addresses are wrong, or the daemons have different streams.
            StokerError: as in `Loader`; one daemon does not answer or refuses.
        """
        self._pid = os.getpid()
        self._rank = rank
        self._group = group
        self._reconnect_s = reconnect_s
        self._connect_to = connect
        self.crashed: dict[int, Place] = {}
        self.delivered = 0
        self._by_host: dict[str, int] = {}
        self._before = _NOTHING
        self._last: Statistics | None = None
        self._next: Place | None = None
        self._one_left = False
        self._share: HostShare | None = None
        self._stream: StreamAnswer | None = None
        self._members: dict[str, DaemonConnection] = {}
        self._returns = Returns(self._connect)
        directory = addresses if isinstance(addresses, Directory) else None
        self._wanted = check_addresses(addresses if directory is None else directory.addresses())
        self._members = self._open(self._wanted)
        try:
            self._steps = steps_of(self.stream.opened)
            self._watch = None if directory is None else Watch(directory, self._wanted)
        except BaseException:
            for member in self._members.values():
                member.close()
            raise

    @property
    def stream(self) -> StreamAnswer:
        """The answer of the daemon that was first when all were opened."""
        assert self._stream is not None
        return self._stream

    @property
    def prefetch(self) -> int:
        """Number of batches that all daemons together prepare ahead."""
        return sum(member.prefetch for member in self._members.values())

    @property
    def follows(self) -> bool:
        """True if a directory says which daemons there are."""
        return self._watch is not None

    def set_hosts(self, addresses: Sequence[object], *, wait: bool = True) -> None:
        """Use these daemons from the next batch on.

        Args:
            addresses: of all of them.
            wait: whether to wait until new ones have opened the stream. Otherwise each gets its
                share once it has; until then it counts as lost.

        Raises:
            UsageError: the loader is of a group, or as in the constructor; nothing changes.
            StokerError: as in the constructor; nothing changes.
        """
        if wait and self._group is not None:
            raise UsageError(
                f"set_hosts: this loader is a member of group {self._group!r}, and all members must"
                " use the same daemons at any time: make each member with a Directory, which all of"
                " them follow"
            )
        wanted = check_addresses(addresses)
        self._adopt()
        known = {*self._members, *self._returns.lost}
        new = [address for address in wanted if address not in known]
        opened = self._open(new) if wait else {}
        self._wanted = wanted
        for address in known - {*wanted}:
            self._returns.forget(address)
            if address in self._members:
                self._leave(address)
                self._next = None
        if opened:
            self._members.update(opened)
            self._next = None
        for address in {*new} - opened.keys():
            self._returns.expect(address)

    def take(self, epoch: int, step: int) -> Taken:
        """Return a batch; waits for it, and with `reconnect_s` also for daemons.

        Raises:
            DaemonLostError: all daemons are lost.
            AccessError: the last daemon no longer lets this client in.
            StokerError: as in `Delivery.take`.
        """
        self._follow_directory()
        while True:
            if self._next != (epoch, step):
                self._aim((epoch, step))
            address = self._owner(epoch, step)
            try:
                taken = self._members[address].take(epoch, step)
            except StokerError as error:
                if type(error) not in _GONE:
                    raise
                self._lose(address, error)
                continue
            self._next = (epoch, step + 1) if step + 1 < self._steps(epoch) else (epoch + 1, 0)
            self._by_host[address] = self._by_host.get(address, 0) + 1
            return taken

    def release(self) -> None:
        """Return the slots whose arrays died."""
        for member in self._members.values():
            try:
                member.release()
            except StokerError as error:
                if type(error) not in _GONE:  # `take` notices a loss
                    raise

    def replay(self, asked: Asked) -> Replay:
        """Return what a replay request asks for, from any daemon; see `Loader.replay`."""
        while True:
            self._follow_directory()
            self._await_any()
            address = next(iter(self._members))
            try:
                return self._members[address].replay(asked)
            except StokerError as error:
                if type(error) not in (DaemonLostError, AccessError):
                    raise
                self._lose(address, error)

    def statistics(self) -> Statistics:
        """Return the counters of all connections; after `close`, their values at that moment."""
        if self._last is not None:
            return self._last
        total = self._before
        for member in self._members.values():
            total = _sum(total, member.statistics())
        return dataclasses.replace(total, delivered=self.delivered, by_host=dict(self._by_host))

    def status(self) -> Status | None:
        """Return None: each daemon has a STATUS of its own."""
        return None

    is_remote = True
    """True if batches of some of the daemons come over a network."""

    def close(self) -> None:
        """Close all connections; does nothing a second time, or in a forked child."""
        if os.getpid() != self._pid or self._last is not None:
            return
        self._last = self.statistics()
        members, self._members = self._members, {}
        try:
            for member in members.values():
                member.close()
        finally:
            if self._watch is not None:
                self._watch.close()
            self._returns.close()

    # ---------------------------------------------------------------- the daemons

    def _open(self, addresses: Sequence[str]) -> dict[str, DaemonConnection]:
        """Open the stream at all addresses at the same time, or at none."""
        if not addresses:
            return {}
        check_threads(len(addresses), "a Loader with several daemons")
        later = self._stream is not None
        opening: list[Future[DaemonConnection]] = []
        opened: dict[str, DaemonConnection] = {}
        try:
            with ThreadPoolExecutor(len(addresses), "stoker-opening") as pool:
                opening.extend(
                    pool.submit(self._connect_to, a, self.crashed, later) for a in addresses
                )
            for address in addresses:
                opened[address] = opening[len(opened)].result()
            for address, connection in opened.items():
                self._check(address, connection)
        except BaseException:  # also an interrupt, while others still open it
            # A future in this frame would refer to itself through its error, and keep what the
            # caller has, such as another loader's memory, until the next collection of cycles.
            while opening:
                opening.pop().add_done_callback(_close_opened)
            raise
        return opened

    def _connect(self, address: str) -> DaemonConnection:
        """Open the stream at a daemon that was lost; runs in the thread of `Returns`."""
        connection = self._connect_to(address, self.crashed, True)
        try:
            self._check(address, connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, address: str, connection: DaemonConnection) -> None:
        if self._stream is None:
            stream = connection.stream  # whose memory goes with its connection
            self._stream, self._first = StreamAnswer(stream.opened, stream.spec), address
        check_equal(self._stream, self._first, connection.stream, address)

    def _follow_directory(self) -> None:
        """Take daemons in that are back, and follow the directory."""
        self._adopt()
        wanted = self._watch.news() if self._watch is not None else None
        if wanted is not None:
            self.set_hosts(wanted, wait=False)

    def _adopt(self) -> None:
        """Take daemons in that are back."""
        while (found := self._returns.take()) is not None:
            self._add(*found)

    def _add(self, address: str, connection: DaemonConnection) -> None:
        if address not in self._wanted or address in self._members:  # changed while it came back
            connection.close()
            return
        self._members[address] = connection
        self._before = dataclasses.replace(self._before, reconnects=self._before.reconnects + 1)
        self._next = None
        _log.warning("the daemon at %s has opened the stream, and gets its share", address)

    def _lose(self, address: str, error: StokerError) -> None:
        """Go on without a daemon; if it was the last one, wait for any.

        Raises:
            DaemonLostError: none came back in time.
            AccessError: it was the last one, and no longer lets this client in.
        """
        self._leave(address)
        self._returns.expect(address)
        _log.warning(
            "the daemon at %s was lost, the others make its batches (%d): %s",
            address, len(self._members), error.message,
        )  # fmt: skip
        self._next = None
        if self._members:
            return
        if not self._wait_for_any():
            if isinstance(error, AccessError):
                raise error
            raise DaemonLostError(
                f"all daemons of this loader were lost, the last one at {address}: {error.message}"
                " With Connection(reconnect_s=...) the loader waits for one to come back",
                address=address,
            )

    def _wait_for_any(self) -> bool:
        """Wait for a daemon, for at most `reconnect_s`; return whether there is one."""
        end = time.monotonic() + (self._reconnect_s or 0.0)
        while not self._members:
            self._follow_directory()
            left_s = end - time.monotonic()
            hope = left_s > 0 and bool(self.follows or self._returns.lost)
            found = self._returns.take(min(left_s, SLICE_S) if hope else 0.0)
            if found is not None:
                self._add(*found)
            elif not hope:
                return bool(self._members)
        return True

    def _leave(self, address: str) -> None:
        """Close a connection; keep what it counted."""
        member = self._members.pop(address)
        self._one_left = True
        left = dataclasses.replace(member.statistics(), leased=0, slots=0, reconnects=0)
        self._before = _sum(self._before, left)
        member.close()

    # ---------------------------------------------------------------- shares

    def _owner(self, epoch: int, step: int) -> str:
        addresses = list(self._members)
        return addresses[0 if self._share is None else self._share.owner(epoch, step)]

    def _aim(self, place: Place) -> None:
        """Let every daemon compute its share from a place on.

        After one has left, samples that only batches from this place on replace are forgotten: the
        caller never got those batches, and the others do not know that these samples crashed.
        """
        while True:
            self._await_any()
            if self._one_left:
                forget_from(self.crashed, place)
                self._one_left = False
            # Members of a group need the same owners, also those of a fork, whose streams differ.
            shared = self._group or self.stream.opened.stream
            keys = [host_key(address, shared, self._rank) for address in self._members]
            several = len(keys) > 1
            self._share = HostShare(keys, 0) if several else None
            for host, address in enumerate(list(self._members)):
                share = HostShare(keys, host) if several else None
                try:
                    self._members[address].daemon_stream.delivery.aim(*place, share)
                except StokerError as error:
                    if type(error) not in _GONE:
                        raise
                    self._lose(address, error)
                    break
            else:
                self._next = place
                return

    def _await_any(self) -> None:
        """Try once more if the caller asks again after all daemons were lost.

        Raises:
            DaemonLostError: none is back.
        """
        if not self._wait_for_any():
            raise DaemonLostError(
                "all daemons of this loader are lost; start one, and take the next batch again",
            )


def _sum(one: Statistics, other: Statistics) -> Statistics:
    return dataclasses.replace(
        one,
        copied=one.copied + other.copied,
        waits=one.waits + other.waits,
        wait_s=one.wait_s + other.wait_s,
        leased=one.leased + other.leased,
        slots=one.slots + other.slots,
    )


def _close_opened(opening: "Future[DaemonConnection]") -> None:
    """Close a connection that is not needed; runs in the thread that opened it, or at once."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def changeable(connection: object) -> Fleet:
    """Return the connection of a loader whose daemons may be set.

    Raises:
        UsageError: the loader has one address, or follows a directory.
    """
    if not isinstance(connection, Fleet):
        raise UsageError(
            "set_hosts: this loader was made with one address; make it with a list of them, as"
            " in Loader([address], ...)"
        )
    if connection.follows:
        raise UsageError(
            "set_hosts: this loader follows a directory, which says where the daemons are; make"
            " it with a list of addresses, as in Loader([address], ...)"
        )
    return connection
