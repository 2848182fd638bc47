"""A session and its pending OPEN, as data."""

from dataclasses import dataclass

from stoker.protocol.exclude import Excluded
from stoker.protocol.messages import Open
from stoker.server.state.clients import Client
from stoker.server.state.groups.group import Group
from stoker.server.work.cuts import Share
from stoker.server.work.work_records import StreamToBuild


@dataclass(slots=True)
class PendingOpen:
    """A pending OPEN.

    Attributes:
        request: the record.
        stream: what a build of it reads.
        key: the key of that build.
        share: its rank's part of every batch.
        excluded: the samples that it leaves out.
        group: the group whose slab is being reserved.
        prefetch: how many batches it prefetches.
        slots: how many slots it gets, with a spare.
        first: how many of them have memory when it opens.
        sent: the numbers of the last BUILDING for it; None before the first.
        sent_at: when that was sent, or when the OPEN came.
    """

    request: Open
    stream: StreamToBuild
    key: str
    share: Share
    excluded: Excluded
    group: Group | None = None
    prefetch: int = 0
    slots: int = 0
    first: int = 0
    sent: tuple[int, int] | None = None
    sent_at: float = 0.0


@dataclass(slots=True)
class Session:
    """One client.

    Attributes:
        token: its token.
        greeted_at: time of its HELLO.
        client: who it is.
        process: the process that it belongs to.
        attached: whether its lifeline is up.
        opening: its pending OPEN.
        group: the group of its open stream.
        dataset: the name of the dataset in its last OPEN.
        pipeline: the same of the pipeline.
        epochs: the length of the training that it named; 0: it named none.
        number: counts the sessions of the daemon from 1.
    """

    token: bytes
    greeted_at: float
    client: Client
    process: str = ""
    attached: bool = False
    opening: PendingOpen | None = None
    group: Group | None = None
    dataset: str = ""
    pipeline: str = ""
    epochs: int = 0
    number: int = 0

    def facts(self) -> dict[str, object]:
        """Return what a log line says about its client."""
        stream = "" if self.group is None else self.group.stream.stream_id
        return self.client.facts(self.dataset, stream)
