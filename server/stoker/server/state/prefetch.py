"""How many batches of a stream are under way, if the client leaves it to the daemon.

Batches are delivered in order, so a slow row holds up those after it, and workers rest when all
batches under way are done but that one. What keeps them busy is rows, not batches: `ROWS_AHEAD` for
each worker. Batches of few bytes cost little memory and are soon computed, so there may be as many
as fit into `CHEAP_BYTES`. docs/decisions.md has the figures.
"""

from typing import Final

from stoker.protocol.request.stream_request import DeliveryRequest
from stoker.server.state.budget import Budget
from stoker.server.state.groups.group_joining import LEAST_PREFETCH, SPARE
from stoker.server.work.cuts import RankCut
from stoker.server.work.work_records import BuildResult

ROWS_AHEAD: Final = 256
"""Rows for each worker that hide slow ones."""
CHEAP_BYTES: Final = 2**27
"""A slab that is not worth a smaller number of batches."""
FEW_PREFETCH: Final = 4
FREE_SHARE: Final = 4
"""It chooses more than a few only if the stream then takes at most this part of the free memory, so
that the first streams leave room for those after them."""


def chosen_prefetch(
    asked: DeliveryRequest, cut: RankCut, build: BuildResult, budget: Budget, workers: int
) -> int:
    """Return how many batches are under way.

    Args:
        asked: how the client wants its batches.
        cut: its rows of the largest batch.
        build: the build of its pipelines.
        budget: the memory.
        workers: number of workers.
    """
    if not asked.prefetch_bytes:
        return asked.prefetch
    slot_bytes, others = cut.layout.slot_bytes, asked.leases + SPARE
    useful = max(-(-ROWS_AHEAD * workers // cut.rows), CHEAP_BYTES // slot_bytes - others)
    chosen = min(useful, asked.prefetch_bytes // slot_bytes - others, asked.prefetch)
    chosen = max(chosen, LEAST_PREFETCH)
    if chosen > FEW_PREFETCH:
        roomy = budget.free_bytes // FREE_SHARE // slot_bytes - others
        chosen = max(FEW_PREFETCH, min(chosen, roomy))
    while chosen > LEAST_PREFETCH and not budget.has(chosen + others, slot_bytes, build):
        chosen -= 1
    return chosen
