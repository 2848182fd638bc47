"""An open stream at one daemon: the session, the mapped memory, the leases in it, and delivery.

All of it ends with the session. A `Connection` opens a new one when it reconnects. The memory stays
mapped for as long as the caller holds arrays in it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stoker.client.batch_delivery import Delivery
from stoker.client.client_session import ClientSession
from stoker.client.device import Target
from stoker.client.lease import LeaseBook
from stoker.client.opened_stream import open_stream
from stoker.client.verifying import Verifier
from stoker.protocol.errors import PeerError
from stoker.protocol.messages import Open
from stoker.protocol.request.stream_request import GroupRequest


class Taken(NamedTuple):
    """The outputs of a batch, and if they were asked for its draw records and digest."""

    arrays: dict[str, Any]
    params: dict[str, np.ndarray] | None
    digest: bytes | None


class DaemonStream:
    """An open stream at one daemon.

    Attributes:
        session: the connection.
        stream: the daemon's answer, the spec, the memory.
        prefetch: how many batches the daemon prepares ahead.
        book: the slots that the caller holds.
        delivery: the announced batches.
        source: gives batches on the caller's device.
    """

    def __init__(
        self,
        connect: Callable[[], ClientSession],
        record: Open,
        target: Target,
        timeout_s: float,
        *,
        open_s: float,
        crashed: dict[int, tuple[int, int]],
    ) -> None:
        """Connect, open the stream and map it.

        Args:
            connect: makes the session, which `close` ends.
            record: the request.
            target: the caller's device.
            timeout_s: time limit for each batch.
            open_s: time limit for the daemon to open the stream.
            crashed: as in `Delivery`; kept up to date.

        Raises:
            StokerError: as in `Loader`.
        """
        self.session = connect()
        try:
            self.stream = open_stream(self.session, record, open_s)
            self.book = LeaseBook(self.stream.slab, self.stream.opened.slots)
            self.prefetch = self.stream.opened.prefetch or record.delivery.prefetch
            opened, slab = self.stream.opened, self.stream.slab
            verifier = Verifier(opened, slab) if record.delivery.verify else None
            self.delivery = Delivery(
                self.session, self.book, opened, self.prefetch, timeout_s, crashed, verifier
            )
            self.source = target.source(self.delivery, slab, opened, record.rank)
            group = record.delivery.group
            gathers = group is not None and group.size > 1 and not group.begun
            self._gathering = group if gathers else None
        except BaseException:
            self.session.close()
            raise

    def take(self, epoch: int, step: int) -> Taken:
        """Return a batch; waits for it.

        Raises:
            StokerError: as in `Delivery.take`.
        """
        try:
            arrays = self.delivery.whole(self.source.get(epoch, step))
        except PeerError as error:
            if self._gathering is None or type(error) is not PeerError:
                raise
            raise _members_missing(error, self._gathering) from None
        self._gathering = None
        place = epoch, step
        params, digests = self.delivery.params, self.delivery.digests
        return Taken(arrays, params.pop(place, None), digests.pop(place, None))

    def close(self) -> None:
        """Release the device and all slots, and end the session."""
        try:
            self.source.close()
            self.book.keep()
        finally:
            self.session.close()


def _members_missing(error: PeerError, group: GroupRequest) -> PeerError:
    """Return the error of a first batch that did not come while the group may wait for members."""
    return PeerError(
        f"{error.message}. The first batch of group {group.name!r} waits for {group.size} members:"
        " start the others, or give a smaller Group.size. The daemon logs group_waits with the"
        " number of those that are there"
    )
