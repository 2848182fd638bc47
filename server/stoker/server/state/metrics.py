"""Counters of the core, under the names that the daemon exports (with the prefix `stoker_`).

`<x>_total` counts since the start, the others are current values. `stolen_rows_total` is
`rows_total - home_rows_total`. `unclaimed_rows` and `claims` are the depths of the queues before
and in the workers.
"""

from collections.abc import Iterable
from dataclasses import fields

from stoker.server.state.core_context import Counts
from stoker.server.state.groups.group import Group
from stoker.server.state.groups.slot_pool import SlotState

_TOTALS = tuple(field.name for field in fields(Counts))


def totals(counts: Counts) -> dict[str, int | float]:
    """Return the counts since the start."""
    found: dict[str, int | float] = {f"{name}_total": getattr(counts, name) for name in _TOTALS}
    found["stolen_rows_total"] = counts.rows - counts.home_rows
    return found


def depths(groups: Iterable[Group]) -> dict[str, int | float]:
    """Return the current values of the groups; O(slots)."""
    found: dict[str, int | float] = {"unclaimed_rows": 0, "batches_under_way": 0, "credits": 0}
    found["members"] = 0
    found |= {f"{state.value}_slots": 0 for state in SlotState}
    del found["gone_slots"]  # they are not there
    for group in groups:
        found["unclaimed_rows"] += sum(batch.unclaimed for batch in group.open)
        found["batches_under_way"] += group.under_way
        found["credits"] += sum(run.credits for run in group.runs)
        found["members"] += len(group.members) if group.name else 0
        for slot in group.slots.slots:
            if slot.state is not SlotState.GONE:
                found[f"{slot.state.value}_slots"] += 1
    return found
