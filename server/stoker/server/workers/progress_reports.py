"""Progress reports of one-off children and workers, and the stack of a child without progress.

Runs in builders and in the compiler of the decoder; workers use `report` alone. Each report goes to
the daemon. In a one-off child it also restarts a watchdog of `faulthandler`, which writes the stack
into a memory file shared with the daemon if the next report does not come in time. The watchdog
needs neither the interpreter nor the main thread, so it also works in compiled code that never
returns. The daemon reads the file when it ends the child.
"""

import faulthandler
import os
import socket
from typing import Final

from stoker.jit import activity
from stoker.server.work.work_records import ProgressReport, StackFile, Unstored
from stoker.server.workers import channel

SHARE: Final = 0.9
"""Part of the deadline after which the stack is written, before the daemon reads it."""


def watch(sock: socket.socket, deadline_s: float) -> None:
    """Report the progress of this process from now on.

    Args:
        sock: leads to the daemon.
        deadline_s: the daemon ends this process this long after the last report.
    """
    memory = os.memfd_create("stoker-stack", os.MFD_CLOEXEC)  # open as long as the process lives
    channel.send(sock, StackFile(), memory)

    def note(compiling: bool) -> None:
        faulthandler.dump_traceback_later(SHARE * deadline_s, file=memory)
        report(sock, compiling)

    activity.listen(note)
    note(False)


def report(sock: socket.socket, compiling: bool) -> None:
    """Report to the daemon that this process makes progress, and kernels that are not stored."""
    channel.send(sock, ProgressReport(compiling, *activity.count()))
    if not compiling and activity.unstored():
        channel.send(sock, Unstored(activity.unstored()))
