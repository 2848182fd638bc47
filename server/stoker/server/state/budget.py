"""The memory budget of slabs and workers: a request beyond the limit raises with the numbers.

A stream needs its slab and, in each worker, the memory for decoded images and for values between
the steps of its pipeline. Streams of one pipeline on one dataset share the latter, as they share an
engine. A session may have a limit too, on its own slots alone: so one client with large batches
leaves room for others.
"""

from collections import Counter

from stoker.protocol.errors import ResourceError
from stoker.server.work.work_records import BuildResult

REMEDY = (
    "use a smaller batch size or prefetch, close other sessions, or give the daemon a larger memory"
    " limit"
)


class Budget:
    """Bytes of slabs and of work, within the limit: 0 <= used_bytes <= limit_bytes.

    Attributes:
        limit_bytes: the limit.
        session_limit_bytes: the limit on the slots of one session; 0: none.
        used_bytes: what is used of it.
        working_bytes: the part of it that workers use for decoded images and values
            between steps.
    """

    def __init__(self, limit_bytes: int, workers: int, session_limit_bytes: int = 0) -> None:
        self.limit_bytes = limit_bytes
        self.session_limit_bytes = session_limit_bytes
        self.used_bytes = 0
        self.working_bytes = 0
        self._workers = workers
        self._streams: Counter[tuple[str, str, str | None]] = Counter()

    @property
    def free_bytes(self) -> int:
        """The rest of the limit."""
        return self.limit_bytes - self.used_bytes

    def take(self, slots: int, slot_bytes: int, build: BuildResult) -> None:
        """Reserve budget for a session's slots, and for its stream.

        Raises:
            ResourceError: the budget is not sufficient, or a session may not have so much.
        """
        self._check_session(slots, slot_bytes)
        need, free = slots * slot_bytes, self.free_bytes
        if need > free:
            raise ResourceError(
                f"not enough memory: needed {need} bytes ({slots} batches of {slot_bytes}: those"
                f" prefetched, those that the client holds, and a spare), allowed {free}"
                f" (memory.limit {self.limit_bytes}, used {self.used_bytes}); {REMEDY}",
                needed_bytes=need,
                allowed_bytes=free,
                limit_bytes=self.limit_bytes,
            )
        working = self._further(build)
        if need + working > free:
            raise ResourceError(
                f"not enough memory: the pipeline needs {build.working_bytes} bytes in each of"
                f" {self._workers} workers for decoded images and values between its steps,"
                f" {working} in all, and {need} for {slots} slots; allowed {free} (memory.limit"
                f" {self.limit_bytes}, used {self.used_bytes}). {build.most} needs the most,"
                f" {build.most_bytes} bytes: make its values smaller, use fewer workers, or raise"
                " memory.limit",
                needed_bytes=need + working,
                allowed_bytes=free,
                limit_bytes=self.limit_bytes,
                op=build.most,
            )
        self.used_bytes += need + working
        self.working_bytes += working
        self._streams[_engine(build)] += 1

    def has(self, slots: int, slot_bytes: int, build: BuildResult) -> bool:
        """Return whether the budget is sufficient for a session's slots, and for its stream."""
        if not self._allows(slots * slot_bytes):
            return False
        needed = slots * slot_bytes + self._further(build)
        return needed <= self.free_bytes

    def give(self, slab_bytes: int, build: BuildResult) -> None:
        """Return the budget of a stream that is gone."""
        engine = _engine(build)
        self._streams[engine] -= 1
        self.used_bytes -= slab_bytes
        if not self._streams[engine]:
            del self._streams[engine]
            self.used_bytes -= build.working_bytes * self._workers
            self.working_bytes -= build.working_bytes * self._workers

    def give_slots(self, size_bytes: int) -> None:
        """Return the budget of slots that a stream no longer has."""
        self.used_bytes -= size_bytes

    def take_working(self, size_bytes: int) -> tuple[int, int]:
        """Take more memory of each worker, if it is there; a negative size gives it back.

        Returns:
            The bytes that all workers need, and those that are allowed.
        """
        needed, allowed = size_bytes * self._workers, self.limit_bytes - self.used_bytes
        if needed <= allowed:
            self.used_bytes += needed
            self.working_bytes += needed
        return needed, allowed

    def _allows(self, session_bytes: int) -> bool:
        return not self.session_limit_bytes or session_bytes <= self.session_limit_bytes

    def _check_session(self, slots: int, slot_bytes: int) -> None:
        need = slots * slot_bytes
        if not self._allows(need):
            raise ResourceError(
                f"too much memory for one session: needed {need} bytes ({slots} batches of"
                f" {slot_bytes}: those prefetched, those that the client holds, and a spare),"
                f" allowed {self.session_limit_bytes}; use a smaller batch size or prefetch, or"
                " raise memory.session_limit of the daemon",
                needed_bytes=need,
                allowed_bytes=self.session_limit_bytes,
                limit_bytes=self.session_limit_bytes,
            )

    def _further(self, build: BuildResult) -> int:
        """Return the bytes that workers need for a stream beyond those for the open ones."""
        return 0 if _engine(build) in self._streams else build.working_bytes * self._workers


def _engine(build: BuildResult) -> tuple[str, str, str | None]:
    return build.fingerprint, build.pipeline_id, build.bucket_plan
