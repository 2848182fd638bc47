"""The slots of one slab: who may write, who may read, and never both at once.

free -> filling -> ready -> leased -> free. A slot's generation counts its fillings, so a late or
repeated release names an old generation and is ignored. A voided slot that still has writers is
`cancelled`, and free when the last of them ends. The last slot of a slab is the spare: it replaces
a slot whose writer cannot be confirmed dead, which becomes `retired`. If that writer is confirmed
dead later, the retired slot becomes the spare.

Invariants: writers > 0 only in filling, cancelled and retired; holders only in leased;
`slots = spare + free + filling + cancelled + ready + leased + retired`; `spare + retired >= 1`.
"""

from enum import Enum


class SlotState(Enum):
    """The state of a slot."""

    SPARE = "spare"
    FREE = "free"
    FILLING = "filling"
    CANCELLED = "cancelled"
    READY = "ready"
    LEASED = "leased"
    RETIRED = "retired"


class Slot:
    """Memory for one batch.

    Attributes:
        index: its place in the slab.
        state: see the module docstring.
        generation: number of times that it was filled.
        writers: number of claims on it that have not ended.
        holders: tokens of the sessions that hold it.
    """

    __slots__ = ("generation", "holders", "index", "state", "writers")

    def __init__(self, index: int, state: SlotState) -> None:
        self.index = index
        self.state = state
        self.generation = 0
        self.writers = 0
        self.holders: set[bytes] = set()


class SlotPool:
    """All slots of one slab, including the spare."""

    def __init__(self, count: int) -> None:
        """Make `count` slots, the last of which is the spare; at least 2."""
        self.slots = [Slot(index, SlotState.FREE) for index in range(count)]
        self.slots[-1].state = SlotState.SPARE
        self._free = self.slots[-2::-1]

    def take(self) -> Slot | None:
        """Start to fill the slot that was freed last (its memory is warm); None if none is free."""
        if not self._free:
            return None
        slot = self._free.pop()
        slot.state = SlotState.FILLING
        slot.generation += 1
        return slot

    def complete(self, slot: Slot) -> None:
        """Mark a slot as ready: all rows are written."""
        _expect(slot, SlotState.FILLING)
        if slot.writers:
            raise RuntimeError(
                f"slot {slot.index}: expected no writers of a complete slot, got {slot.writers}"
            )
        slot.state = SlotState.READY

    def lease(self, slot: Slot, holder: bytes) -> None:
        """Lease a slot to a holder, to which its batch is announced."""
        if slot.state is not SlotState.LEASED:
            _expect(slot, SlotState.READY)
            slot.state = SlotState.LEASED
        slot.holders.add(holder)

    def release(self, index: int, generation: int, holder: bytes) -> bool:
        """End a holder's lease; False if it does not hold that generation of the slot."""
        if index >= len(self.slots):
            return False
        slot = self.slots[index]
        if slot.generation != generation or holder not in slot.holders:
            return False
        slot.holders.remove(holder)
        if not slot.holders:
            self._to_free(slot)
        return True

    def void(self, slot: Slot) -> None:
        """Discard the batch in a slot: free it at once, or when its writers have ended."""
        if slot.writers:
            _expect(slot, SlotState.FILLING)
            slot.state = SlotState.CANCELLED
        elif slot.state is not SlotState.FILLING:
            _expect(slot, SlotState.READY)
            self._to_free(slot)
        else:
            self._to_free(slot)

    def retire(self, slot: Slot) -> bool:
        """Replace a slot, whose writer cannot be confirmed dead, by the spare; False if none."""
        if slot.state is not SlotState.CANCELLED:
            _expect(slot, SlotState.FILLING)
        slot.state = SlotState.RETIRED
        spare = next((s for s in self.slots if s.state is SlotState.SPARE), None)
        if spare is None:
            return False
        self._to_free(spare)
        return True

    def writer_ended(self, slot: Slot) -> None:
        """Count the end of a claim on the slot; a slot that waited for it becomes free."""
        slot.writers -= 1
        if slot.writers:
            return
        if slot.state is SlotState.CANCELLED:
            self._to_free(slot)
        elif slot.state is SlotState.RETIRED:
            if any(s.state is SlotState.SPARE for s in self.slots):
                self._to_free(slot)
            else:
                slot.state = SlotState.SPARE

    def count(self, state: SlotState) -> int:
        """Return the number of slots in that state."""
        return sum(slot.state is state for slot in self.slots)

    def _to_free(self, slot: Slot) -> None:
        slot.state = SlotState.FREE
        self._free.append(slot)


def _expect(slot: Slot, state: SlotState) -> None:
    if slot.state is not state:
        raise RuntimeError(
            f"slot {slot.index}: expected state {state.value}, got {slot.state.value}"
        )
