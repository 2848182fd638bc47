"""Versions of the contracts; each has a page in docs/contracts/ or docs/protocol.md.

A number changes only when bytes, draws or pixels change. `WIRE` counts incompatible changes of the
message grammar. Appending a field to a record needs no new number, because readers ignore unknown
trailing fields.
"""

from typing import Final

STOKER: Final = "0.1.0"
WIRE: Final = 1
STREAM_SPEC: Final = 1
CURSOR: Final = 1
GRAPH: Final = 1
RANDOM: Final = 1
ORDER: Final = 1
NUMERIC: Final = 1
DECODER: Final = 1
MANIFEST: Final = 1
