"""Faults inside a real daemon, with real workers: a Loader gets every byte, maybe later."""

import contextlib
import json
import signal
from pathlib import Path

import pytest

from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import StokerError

pytestmark = pytest.mark.slow
OFTEN = (2, 3, 5, 8, 13, 21, 34, 55, 89, 144)
PLACES = ("message", "descriptor", "instruction", "tick")


@pytest.mark.as_a_user
def test_handlers_that_raise_cost_time_and_no_byte(
    serve, loader, expected, counters, folder: Path
) -> None:
    plan = ",".join(f"daemon.{place}:error:{hit}" for place in PLACES for hit in OFTEN)
    (folder / "faults.toml").write_text(f"[testing]\nfail_points = {json.dumps(plan)}\n")
    daemon = serve(f"--config={folder}/faults.toml", warm=True)
    with loader(daemon, reconnect_s=60) as batches:
        found = [
            batch_digest(batch, batch.epoch, batch.step) for _ in range(3) for batch in batches
        ]
    assert found == expected("labels", 3)
    # A fault that is left may meet the session that reads the counters; each is met once.
    for _ in range(len(PLACES) * len(OFTEN) + 1):
        with contextlib.suppress(StokerError):
            errors = counters(daemon)["unexpected_errors_total"]
            break
    assert errors >= len(PLACES) * 5
    assert daemon.stop(signal.SIGTERM) == 0
