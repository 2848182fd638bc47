"""The note of where a worker hangs: what a process of its own writes into its progress page."""

import json

SCRIPT = """
import json, mmap, os, select, signal
from stoker.server.workers.hang_trace import HangTrace
from stoker.server.workers.child_config import PROGRESS_BYTES, STACK_AT

descriptor = os.memfd_create("page")
os.ftruncate(descriptor, PROGRESS_BYTES)
page = mmap.mmap(descriptor, PROGRESS_BYTES)
note = HangTrace(descriptor, page, 0.01)

def waiting_for(happened):
    while not happened():
        select.select([], [], [], 0.001)

def hanging():
    note.begin()
    waiting_for(lambda: page[STACK_AT])
    note.end()
    return page[STACK_AT:].partition(b"\\0")[0].decode()

stacks = [hanging()]
def looping():
    note.begin()
    while not page[STACK_AT]:
        pass
    note.end()
    return page[STACK_AT:].partition(b"\\0")[0].decode()
stacks.append(looping())

signal.signal(signal.SIGALRM, lambda *_: None)  # as a function with a timeout of its own does
signal.signal(signal.SIGALRM, signal.SIG_DFL)
stacks.append(hanging())

came = []
signal.signal(signal.SIGALRM, lambda *_: came.append(1))
page[STACK_AT] = 0
note.begin()
signal.setitimer(signal.ITIMER_REAL, 0.01)
waiting_for(lambda: came)
stacks.append(page[STACK_AT:].partition(b"\\0")[0].decode())

signal.signal(signal.SIGALRM, signal.SIG_DFL)
os.close(descriptor)
note.begin()
assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
note.end()
print(json.dumps(stacks))
"""


def test_it_names_where_the_process_is_unless_the_signal_is_anothers(python):
    waits, loops, given_back, others = json.loads(python(SCRIPT))
    assert " in waiting_for\n" in waits
    assert " in hanging\n" in waits
    assert " in looping\n" in loops
    assert "hanging" not in loops, "the note before is gone"
    assert " in hanging\n" in given_back
    assert others == ""
