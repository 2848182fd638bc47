"""Replays of a loader's rows: by sample, by row of a batch, and of samples as they are stored."""

from stoker.client.batches.batch import Batch
from stoker.client.connection import DaemonConnection
from stoker.client.hosts.fleet import Fleet
from stoker.protocol.errors import UsageError
from stoker.protocol.messages import Opened
from stoker.protocol.replayed_row import Replay
from stoker.protocol.request.argument_checks import within
from stoker.protocol.spec import MAX_VIEWS, StreamSpec

MOST = 2**48


class RowReplays:
    """Asks the daemon for replays of a stream's rows."""

    def __init__(
        self,
        connection: DaemonConnection | Fleet,
        opened: Opened,
        spec: StreamSpec,
    ) -> None:
        self._connection = connection
        self._opened = opened
        self._spec = spec

    def stored(self, place: int) -> Replay:
        """Return a sample of the stream as it is stored, by its place."""
        return self._connection.replay((place, 0, 0, 0, True))

    def of_sample(self, sample_id: int, epoch: int, visit: int, view: int) -> Replay:
        """Return a replay of a sample; see `Loader.replay`."""
        return self._connection.replay(
            (
                within("sample_id", sample_id, 0, MOST),
                within("epoch", epoch, 0, MOST),
                within("visit", visit, 0, MOST),
                within("view", view, 0, MAX_VIEWS - 1),
                False,
            )
        )

    def of_row(self, batch: Batch, row: int) -> Replay:
        """Return a replay of a row of a batch; see `Loader.replay_row`.

        Raises:
            UsageError: the batch has no such row, or the row holds no sample.
        """
        row = within("row", row, 0, len(batch.index) - 1)
        delivered, requested = int(batch.index[row]), int(batch.requested[row])
        if delivered < 0:
            raise UsageError(f"row {row} holds no sample: its index is -1")
        spec = self._spec
        if spec.buckets or spec.order.weights or spec.mix:
            epoch, visit, view = (int(number) for number in batch["drawn_as"][row])
            return self.of_sample(delivered, epoch, visit, view)
        position, view = divmod(self._opened.first_row + row, spec.views)
        position += batch.step * spec.batch_size
        visit = position + 1 if delivered != requested else 0
        return self.of_sample(delivered, batch.epoch, visit, view)
