"""How many batches are under way, if a client leaves it to the daemon."""

import pytest

from stoker.protocol.request.stream_request import DeliveryRequest
from stoker.protocol.slot_layout import Output, slot_layout
from stoker.server.state.budget import Budget
from stoker.server.state.prefetch import chosen_prefetch
from stoker.server.work.cuts import RankCut


@pytest.mark.parametrize(
    ("workers", "rows", "mebibytes", "chosen"),
    [
        (2, 256, 38, 2),
        (2, 64, 10, 9),
        (2, 64, 38, 8),
        (8, 256, 38, 8),
        (64, 256, 38, 10),
        (64, 256, 16, 16),
        (1, 256, 8, 12),
        (1, 256, 1, 16),
        (64, 4, 200, 2),
    ],
)
def test_enough_rows_for_each_worker(make_result, workers, rows, mebibytes, chosen):
    """256 for each worker, as far as 512 MiB hold them, or what 128 MiB hold; 2 to 16 batches."""
    outputs = (Output("image", "uint8", (mebibytes * 2**20 // rows,)),)
    cut = RankCut(0, outputs, slot_layout(outputs, rows), rows)
    asked = DeliveryRequest(prefetch=16, leases=2, prefetch_bytes=2**29)
    budget = Budget(2**40, workers)
    assert chosen_prefetch(asked, cut, make_result(1), budget, workers) == chosen
