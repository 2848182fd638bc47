"""Serves one request in a one-off child: one request in, one answer out, also after a failure.

A one-off child is a fork of the template that serves a single request (build, replay) and ends.
Its answer is a record, with a descriptor if it has one; a fault of any kind is answered as a typed
error, so the daemon need not read its standard error.
"""

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from stoker.dataset.images.jpeg.decoding import choose_decoder
from stoker.jit import set_cache_root
from stoker.jit.named import allow_modules
from stoker.protocol.errors import StokerError
from stoker.server.work.work_records import Failed
from stoker.server.workers import channel
from stoker.server.workers.child_config import OneOffRequest
from stoker.server.workers.failpoints import FailPoints

Answer = tuple[msgspec.Struct, int | None]


def serve(
    sock: socket.socket,
    number: int,
    role: str,
    act: Callable[[Any], Answer],
    fault: StokerError,
    watch: Callable[[socket.socket, float], None] | None = None,
) -> int:
    """Serve one request; return the exit code.

    Args:
        sock: the child's end.
        number: the child's number, for fail points.
        role: name of the role, for fail points.
        act: the request -> the answer and a descriptor, which is closed once it is sent.
        fault: reported for any error that is not a `StokerError`; its text is appended.
        watch: called first, with the socket and the deadline for progress.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    first = channel.receive(sock, OneOffRequest)
    if first is None:
        return 0
    order: OneOffRequest = first[0]
    if watch is not None:
        watch(sock, order.deadline_s)
    fail = FailPoints(order.fail_points, number)
    set_cache_root(order.cache_root)
    choose_decoder(order.jpeg)
    allow_modules(*order.op_modules)
    answer: Answer
    try:
        fail.visit(f"{role}.start")
        answer = act(order.request)
        fail.visit(f"{role}.done")
    except StokerError as error:
        answer = Failed(0, 0, *error.to_record()), None
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        reported = type(fault)(f"{fault.message} failed with {type(error).__name__}: {error}")
        answer = Failed(0, 0, *reported.to_record()), None
    record, descriptor = answer
    channel.send(sock, record, descriptor)
    if descriptor is not None:
        os.close(descriptor)
    return 0
