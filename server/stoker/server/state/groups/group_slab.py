"""The memory of a group: a slab, whose slots come and go with the members.

The slab has room for the slots of many members, of which only those that are there have memory.
The slots of a member that joins, and those that the first one does not need at once, are reserved
in turn, one growth of the slab at a time. When a member leaves, as many slots go as it brought, as
soon as they are free.
"""

from collections import deque
from collections.abc import Container
from typing import NamedTuple

from stoker.protocol.errors import ResourceError
from stoker.server.state.budget import Budget
from stoker.server.state.core_context import CoreContext
from stoker.server.state.core_instructions import GrowSlab, ShrinkSlab
from stoker.server.state.groups.slot_pool import SlotPool
from stoker.server.work.work_records import BuildResult


class Growth(NamedTuple):
    """Slots that a member brings, and whose memory is not reserved yet.

    Attributes:
        token: the member.
        slots: their numbers.
        opens: whether the member's session waits for them to be open.
    """

    token: bytes
    slots: list[int]
    opens: bool


class GroupSlab:
    """A slab and its part of the memory budget.

    Attributes:
        number: its number, which is that of its group.
        slots: its slots.
        slot_bytes: size of a slot; it has room for the largest batch.
        capacity: number of slots that it has room for; others than those present cost none.
        used_bytes: the part of the budget that it has.
        reserved: whether its memory is reserved.
        closing: whether it ends with the last claim on it.
        growing: the slots whose memory is being reserved.
        waiting: slots that have no memory yet, in turn.
    """

    __slots__ = (
        "_budget", "_context", "capacity", "closing", "growing", "number", "reserved",
        "slot_bytes", "slots", "used_bytes", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        context: CoreContext,
        budget: Budget,
        number: int,
        slots: int,
        slot_bytes: int,
        capacity: int,
    ) -> None:
        """Describe a slab whose first slots are to be reserved; their budget is taken.

        Args:
            context: the core's.
            budget: of all slabs.
            number: its number.
            slots: how many are reserved first, with the spare.
            slot_bytes: size of each.
            capacity: for how many it has room.
        """
        self._context = context
        self._budget = budget
        self.number = number
        self.slots = SlotPool(slots)
        self.slot_bytes = slot_bytes
        self.capacity = capacity
        self.used_bytes = slots * slot_bytes
        self.reserved = False
        self.closing = False
        self.growing: Growth | None = None
        self.waiting: deque[Growth] = deque()

    @property
    def size_bytes(self) -> int:
        """Its size with all slots."""
        return self.capacity * self.slot_bytes

    def follow(self, token: bytes, count: int) -> None:
        """Plan slots of the first member that follow when the slab is reserved, from its budget."""
        if not count:
            return
        slots = self.slots.plan(count, self.capacity)
        assert slots is not None  # the slab was made for them
        self.used_bytes += count * self.slot_bytes
        self.waiting.append(Growth(token, slots, opens=False))

    def join(self, token: bytes, first: int, count: int, build: BuildResult) -> bool:
        """Plan the slots of a member, the first of which open its session; False: no room.

        Raises:
            ResourceError: the budget is not sufficient.
        """
        slots = self.slots.plan(count, self.capacity)
        if slots is None:
            return False
        try:
            self._budget.take(count, self.slot_bytes, build)
        except ResourceError:
            self.slots.cancel(slots)
            raise
        self.used_bytes += count * self.slot_bytes
        self.waiting.append(Growth(token, slots[:first], opens=True))
        if slots[first:]:
            self.waiting.append(Growth(token, slots[first:], opens=False))
        return True

    def begin_growth(self, members: Container[bytes]) -> None:
        """Reserve the slots whose turn it is, unless a growth is under way; who waits comes first.

        Args:
            members: tokens of the group; slots of others are given up.
        """
        while self.reserved and self.waiting and self.growing is None:
            growth = next((one for one in self.waiting if one.opens), self.waiting[0])
            self.waiting.remove(growth)
            if growth.token in members:
                self.growing = growth
                self._context.out.append(
                    GrowSlab(self.number, tuple(growth.slots), self.slot_bytes)
                )
            else:
                self._give_up(growth)

    def end_growth(self) -> Growth | None:
        """Admit the slots whose memory is there now; None: none was reserved."""
        growth, self.growing = self.growing, None
        if growth is not None:
            self.slots.admit(growth.slots)
        return growth

    def fail_growth(self, growth: Growth) -> None:
        """Give up the slots whose memory was refused, and later ones of that member."""
        self.growing = None
        for one in [growth, *(one for one in self.waiting if one.token == growth.token)]:
            if one is not growth:
                self.waiting.remove(one)
            self._give_up(one)

    def shrink(self) -> None:
        """Have the memory of slots freed that are gone."""
        gone = self.slots.left
        if gone and self.reserved and not self.closing:
            self._context.out.append(ShrinkSlab(self.number, tuple(gone), self.slot_bytes))
            self._give_back(len(gone))
            gone.clear()

    def release_all(self, token: bytes) -> None:
        """End all leases of a session."""
        for slot in self.slots.slots:
            self.slots.release(slot.index, slot.generation, token)

    def _give_up(self, growth: Growth) -> None:
        self.slots.cancel(growth.slots)
        self._give_back(len(growth.slots))

    def _give_back(self, slots: int) -> None:
        size_bytes = slots * self.slot_bytes
        self.used_bytes -= size_bytes
        self._budget.give_slots(size_bytes)
