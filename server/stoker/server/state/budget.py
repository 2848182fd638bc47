"""The memory budget of all slabs: a request beyond the limit raises with the numbers."""

from stoker.protocol.errors import ResourceError

REMEDY = (
    "use a smaller batch size or prefetch, close other sessions, or give the daemon a larger memory"
    " limit"
)


class Budget:
    """Bytes that slabs use, within the limit: 0 <= used_bytes <= limit_bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def take(self, slots: int, slot_bytes: int) -> None:
        """Reserve budget for a slab.

        Raises:
            ResourceError: the budget is not sufficient.
        """
        need, free = slots * slot_bytes, self.limit_bytes - self.used_bytes
        if need > free:
            raise ResourceError(
                f"not enough memory: needed {need} bytes ({slots} slots of {slot_bytes}: prefetch,"
                f" leases and a spare), allowed {free} (limit {self.limit_bytes}, used"
                f" {self.used_bytes}); {REMEDY}",
                needed_bytes=need,
                allowed_bytes=free,
                limit_bytes=self.limit_bytes,
            )
        self.used_bytes += need

    def has(self, slots: int, slot_bytes: int) -> bool:
        """Whether the budget is sufficient for a slab."""
        return slots * slot_bytes <= self.limit_bytes - self.used_bytes

    def give(self, size_bytes: int) -> None:
        """Return the budget of a slab that is gone."""
        self.used_bytes -= size_bytes
