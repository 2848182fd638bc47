"""The slots of one slab: who may write, who may read, and never both at once.

free -> filling -> ready -> leased -> free. A slot's generation counts its fillings, so a late or
repeated release names an old generation and is ignored. A voided slot that still has writers is
`cancelled`, and free when the last of them ends. One slot of a slab is the spare: it replaces
a slot whose writer cannot be confirmed dead, which becomes `retired`. If that writer is confirmed
dead later, the retired slot becomes the spare.

In a slab that several sessions read, a slot without holders goes where `after` says: it is `ready`
if another session still waits for its batch, and `kept` if another session will come to the batch
later. A kept slot can be used again at any time. Such a slab also grows and shrinks: a `gone` slot
has no memory, and that of a `coming` one is being reserved. `withdraw` names how many slots shall
go; each goes when it would become free.

Invariants: writers > 0 only in filling, cancelled and retired; holders only in leased;
`slots = spare + free + filling + cancelled + ready + leased + kept + retired + coming
+ gone`; `spare + retired >= 1`; no slot is free while slots are owed.
"""

from collections.abc import Callable, Iterable
from enum import Enum


class SlotState(Enum):
    """The state of a slot."""

    SPARE = "spare"
    FREE = "free"
    FILLING = "filling"
    CANCELLED = "cancelled"
    READY = "ready"
    LEASED = "leased"
    KEPT = "kept"
    RETIRED = "retired"
    COMING = "coming"
    GONE = "gone"


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


def _free(_: Slot) -> SlotState:
    return SlotState.FREE


class SlotPool:
    """All slots of one slab, including the spare.

    Attributes:
        after: returns what a complete slot without holders becomes: ready, kept or free.
        slots: by number.
        owed: number of slots that are still to go.
        left: slots that are gone, and whose memory is not freed yet.
    """

    def __init__(self, count: int, after: Callable[[Slot], SlotState] = _free) -> None:
        """Make `count` slots, the last of which is the spare; at least 2. `plan` adds others."""
        self.after = after
        self.slots = [Slot(index, SlotState.FREE) for index in range(count)]
        self.slots[-1].state = SlotState.SPARE
        self.owed = 0
        self.left: list[int] = []
        self._free = self.slots[-2::-1]

    def plan(self, count: int, most: int) -> list[int] | None:
        """Return the numbers of `count` slots to add: gone ones first; None beyond `most` slots."""
        gone = [s.index for s in self.slots if s.state is SlotState.GONE]
        gone = [index for index in gone if index not in self.left]
        new = range(len(self.slots), len(self.slots) + max(count - len(gone), 0))
        if len(self.slots) + len(new) > most:
            return None
        self.slots += [Slot(index, SlotState.GONE) for index in new]
        chosen = [*gone[:count], *new]
        for index in chosen:
            self.slots[index].state = SlotState.COMING
        return chosen

    def admit(self, indices: Iterable[int]) -> None:
        """Make planned slots free, whose memory is there now."""
        for index in indices:
            _expect(self.slots[index], SlotState.COMING)
            self._to_free(self.slots[index])

    def cancel(self, indices: Iterable[int]) -> None:
        """Give up planned slots, which never got memory."""
        for index in indices:
            _expect(self.slots[index], SlotState.COMING)
            self.slots[index].state = SlotState.GONE

    def withdraw(self, count: int) -> None:
        """Let this many slots go, free ones at once; the others when they would become free."""
        self.owed += count
        while self.owed and self._free:
            self._to_free(self._free.pop(0))

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
            self.settle(slot)
        return True

    def settle(self, slot: Slot) -> None:
        """Decide about a complete slot without holders: ready, kept or free."""
        slot.state = self.after(slot)
        if slot.state is SlotState.FREE:
            self._to_free(slot)

    def reuse(self, slot: Slot) -> None:
        """Make a kept slot ready again, because a session waits for its batch."""
        _expect(slot, SlotState.KEPT)
        slot.state = SlotState.READY

    def give_up(self, slot: Slot) -> None:
        """Free a kept slot."""
        _expect(slot, SlotState.KEPT)
        self._to_free(slot)

    def void(self, slot: Slot) -> None:
        """Discard a batch that is not held: free its slot at once, or when its writers have ended.

        A complete one may be kept.
        """
        if slot.writers:
            _expect(slot, SlotState.FILLING)
            slot.state = SlotState.CANCELLED
        elif slot.state is not SlotState.FILLING:
            _expect(slot, SlotState.READY)
            self.settle(slot)
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
        spare.state = SlotState.FREE
        self._free.append(spare)
        return True

    def writer_began(self, slot: Slot) -> None:
        """Count a claim on the slot."""
        slot.writers += 1

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
        if self.owed:
            self.owed -= 1
            slot.state = SlotState.GONE
            self.left.append(slot.index)
        else:
            slot.state = SlotState.FREE
            self._free.append(slot)


def _expect(slot: Slot, state: SlotState) -> None:
    if slot.state is not state:
        raise RuntimeError(
            f"slot {slot.index}: expected state {state.value}, got {slot.state.value}"
        )
