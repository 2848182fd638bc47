"""A session, and what it wants to have opened, as data."""

from dataclasses import dataclass

from stoker.protocol.exclude import Excluded
from stoker.protocol.messages import Open
from stoker.server.state.builds import Key
from stoker.server.state.groups import Group
from stoker.server.work.cuts import Share


@dataclass(slots=True)
class Wish:
    """An OPEN that is being worked on.

    Attributes:
        request: the record.
        key: the build that it needs.
        share: its rank's part of every batch.
        excluded: the samples that it leaves out.
        group: the group whose slab is being reserved.
    """

    request: Open
    key: Key
    share: Share
    excluded: Excluded
    group: Group | None = None


@dataclass(slots=True)
class Session:
    """One client.

    Attributes:
        token: its name.
        greeted_at: when it said hello.
        client: what it says that it is.
        attached: its lifeline is up.
        wish: the OPEN that is being worked on.
        group: what it has open.
    """

    token: bytes
    greeted_at: float
    client: str
    attached: bool = False
    wish: Wish | None = None
    group: Group | None = None
