"""Compiles Stoker's own decoder of JPEGs into the cache on disk, while libjpeg-turbo serves.

Runs as a one-off child of the template, at a low priority. If the cache already has the decoder,
nothing is compiled. The template of the next daemon loads the decoder before it forks workers.
"""

import os
import socket
from typing import Final

from stoker.dataset.images.jpeg.decoding.decoder import (
    compile_decoder,
    is_decoder_missing,
    load_decoder,
)
from stoker.jit import activity, cache_root
from stoker.protocol.errors import BuildError, ResourceError
from stoker.server.work.work_records import DecoderCompiled, DecoderRequest
from stoker.server.workers import one_off_child, progress_reports
from stoker.server.workers.recent_kernels import remember

NICENESS: Final = 5
"""Of a core that a busy process of normal priority wants too, it gets a quarter."""


def compile_for_workers(request: DecoderRequest) -> one_off_child.Answer:
    """Compile a form of the decoder, and check that workers will find it.

    Raises:
        ResourceError: it cannot be stored.
    """
    if not load_decoder(request.form):
        _check_storing()
        compile_decoder(request.form)
        _check_storing()
        if is_decoder_missing(request.form):
            raise ResourceError(
                f"kernel cache {cache_root()}: another process held a lock for too long, so the"
                " decoder of JPEGs is compiled and not stored; end processes that are stopped"
            )
    remember()
    return DecoderCompiled(), None


def _check_storing() -> None:
    """Refuse to go on if kernels cannot be stored: workers could not find the decoder."""
    if activity.unstored():
        raise ResourceError(
            f"{activity.unstored()}: the decoder of JPEGs cannot be stored; free some space, or"
            " choose another folder with daemon.cache_root or XDG_CACHE_HOME"
        )


def serve(sock: socket.socket, number: int) -> int:
    """Compile the decoder and answer; return the exit code."""
    os.nice(NICENESS)
    fault = BuildError("compiling the decoder of JPEGs")
    act, watch = compile_for_workers, progress_reports.watch
    return one_off_child.serve(sock, number, "decoder_compiler", act, fault, watch)
