"""The place of a loader in its stream: epochs, skipped steps, and the cursor that is saved."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from stoker.client.batch_delivery import crashed_before
from stoker.client.position import Position
from stoker.client.ranks.rank_calls import check_agreed
from stoker.protocol.cursor import Cursor
from stoker.protocol.spec import StreamSpec


class Resuming(ABC):
    """The part of `Loader` that sets where the next loop starts."""

    _position: Position
    _rank: int
    _world_size: int
    _spec: StreamSpec
    _crashed: dict[int, tuple[int, int]]

    @abstractmethod
    def _check_usable(self) -> None:
        """Raise unless the loader can be used."""

    @property
    def spec(self) -> StreamSpec:
        """The StreamSpec: everything that determines the bytes of the stream."""
        return self._spec

    def __len__(self) -> int:
        """Return the number of batches in an epoch.

        With buckets, epochs may differ by a few: it is the number for the running epoch, or, before
        a loop, for the next one.
        """
        return self._position.length

    def set_epoch(self, epoch: int) -> None:
        """Make the next `iter()` start that epoch, or continue in it from a loaded cursor.

        Raises:
            UsageError: the epoch is not an integer from 0.
        """
        self._position.set_epoch(epoch)

    def skip(self, steps: int) -> None:
        """Leave out the next batches of the epoch; the cursor counts them.

        Inside a loop, that loop continues after them; before one, the next `iter()` starts there.

        Raises:
            UsageError: the epoch has fewer batches left.
        """
        self._position.skip(steps)

    def skip_steps(self, epoch: int, steps: Iterable[int | range]) -> None:
        """Leave out listed steps of an epoch, now and after every resume: the cursor lists them.

        For batches that a training should not see again, such as those before a loss spike: load a
        state from before them, then skip them. Other steps keep their numbers and their bytes, and
        `len()` counts only batches that are delivered. All ranks must skip the same steps: with
        `torch.distributed` each rank calls this, and all get an error if one differs or is missing.

        Args:
            epoch: the epoch, from 0.
            steps: numbers of steps, `batch.step`, or ranges of them.

        Raises:
            UsageError: a step is not one of the epoch or was delivered before, ranks disagree, or
                there are too many ranges for a cursor.
        """
        self._check_usable()
        found = self._position.steps_to_skip(epoch, steps)
        skips = self._position.skips | found
        Cursor.check_room(self.spec, skips.since(self._position.current.epoch))
        check_agreed(f"skip_steps/{self.spec.stream_id}", str(found), self._rank, self._world_size)
        self._position.skips = skips

    def state_dict(self) -> dict[str, Any]:
        """Return the cursor: plain data, at most 1 KiB as JSON, the same on every rank.

        It names the step after the last batch delivered (before the first batch: the place where
        the next loop starts). Prefetched batches do not count. It still works after the daemon was
        lost and after `close()`.
        """
        place = self._position.current
        crashed = crashed_before(self._crashed, (place.epoch, place.step))
        return Cursor.at(
            self.spec, place.epoch, place.step, place.skipped, crashed, self._position.skips
        ).to_data()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next `iter()` continue at a cursor.

        A cursor at the end of an epoch continues with the next epoch's first step. Steps that the
        cursor leaves out (`skip_steps`) are added to those that this loader leaves out.

        Raises:
            ResumeError: it is not a cursor, or belongs to another stream; the message says what
                changed.
        """
        cursor = Cursor.from_data(dict(state) if isinstance(state, Mapping) else state)
        self._position.load(cursor, self.spec, self._world_size)
        self._crashed.clear()
        self._crashed.update(dict.fromkeys(cursor.crashed, (cursor.epoch, cursor.step - 1)))
