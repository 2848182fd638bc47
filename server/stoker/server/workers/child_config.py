"""First packets from the daemon to its child processes. Imports no numba: the daemon imports it."""

import mmap
import struct
from typing import Final

import msgspec

from stoker.server.work.work_records import BuildRequest, DecoderRequest, ReplayRequest

PROGRESS = struct.Struct("=qqq")
"""Progress of a worker: claim, row of the global batch, sample; -1 for any that is not begun."""
SAMPLE_AT = 16
IDLE = (-1, -1, -1)
SHOWN_AT: Final = 64
"""Where a worker shows what it does now: two words, see `stage_page`."""
STACK_AT: Final = mmap.PAGESIZE
"""Offset in the progress page's file at which a worker writes its stack if a chunk is too slow."""
MAX_STACK: Final = 65536
PROGRAM_AT: Final = STACK_AT + MAX_STACK
"""Where it says which ops its program has."""
MAX_PROGRAM: Final = 16384
PROGRESS_BYTES: Final = PROGRAM_AT + MAX_PROGRAM


class WorkerConfig(msgspec.Struct, frozen=True, array_like=True, tag="config"):
    """First packet to a worker, with the descriptor of its progress page.

    `share` of `shares` is its home: the part of every dataset whose rows count as local.
    `debug_memory`: run kernels between guard bytes. `integrity`: the rows that are checked when
    they are read, see `open_dataset`. `claim_deadline_s`: a worker is killed if a chunk takes
    longer. `jpeg`: the decoder of JPEGs with a grid. `stage_times`: time the stages of some rows.
    """

    worker: int
    share: int
    shares: int
    cache_root: str
    fail_points: str
    debug_memory: bool = False
    integrity: str = "auto"
    claim_deadline_s: float = 60.0
    jpeg: str = "libjpeg"
    stage_times: bool = True


class OneOffRequest(msgspec.Struct, frozen=True, array_like=True, tag="one_off"):
    """First and only packet to a one-off child: a builder, a replayer or a decoder compiler.

    `op_modules`: modules from which the graph data of a client may name code. A builder without
    progress for a little less than `deadline_s` writes down its stack. `jpeg`: the decoder of JPEGs
    with a grid.
    """

    request: BuildRequest | ReplayRequest | DecoderRequest
    cache_root: str
    fail_points: str
    op_modules: tuple[str, ...] = ()
    deadline_s: float = 300.0
    jpeg: str = "libjpeg"
