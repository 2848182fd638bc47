"""The targets of fuzzing: functions of bytes that must either answer or refuse.

A target gets any bytes. It returns whether they were accepted. It raises only if a rule is broken:
another exception than the typed ones, a value that does not survive its own encoding, a bound that
does not hold. Targets keep nothing between calls, but what they prepare once.

A new target is a function with `@target` in the module of its kind, and its first inputs are a
function of the same name in `seeds`. `corpus` has the inputs that `tools/fuzz.py` found, guided by
coverage.
"""

from file_targets import with_offsets
from session_targets import SLOT_BYTES, TOKEN
from target_tools import TARGETS, release
from wire_targets import RING_SLOT_BYTES

__all__ = ["RING_SLOT_BYTES", "SLOT_BYTES", "TARGETS", "TOKEN", "release", "with_offsets"]
