"""Work that packing and verifying give to other processes: plain functions on plain data.

A job is the name of a function in `JOBS` and its argument in JSON form; its result is JSON too. The
same functions run in process if there is only one worker. They report progress as (rows, bytes).
"""

from collections.abc import Callable
from typing import Any

from stoker.dataset.packing.pack_shard import pack_shard
from stoker.dataset.packing.pool import Report
from stoker.dataset.packing.verify_rows import verify_rows

JOBS: dict[str, Callable[[Any, Report], Any]] = {
    "pack_shard": pack_shard,
    "verify_rows": verify_rows,
}
