"""Numbers that several modules of the decoder share."""

from typing import Final

STREAMS: Final = 6
"""Intervals that are decoded at the same time, interleaved."""
LOOKUPS: Final = 4
"""Lookups of a stream between two loads of its next 64 bits."""
LOOKUP_BITS: Final = 11
"""Bits that index a table."""
ENTRIES: Final = 1 << LOOKUP_BITS
LANES: Final = 16
"""Blocks that are transformed at once, one in each lane of a vector of int16."""
BAND: Final = 4
"""MCU rows that are decoded before their pixels are written: their coefficients fit a cache."""
RING: Final = BAND + 1
"""MCU rows of samples in memory; the last one of a band is smoothed with the first of the next."""
FIRST_TEN: Final = 10
"""A block whose other coefficients, in zigzag order, are zero is transformed as 4 by 4."""
DC_MARK: Final = 0x4000
"""Added to differences of DC: a block that a run skipped has no mark."""
DC_MOST: Final = 2047
"""Greatest difference of DC in baseline files, T.81, table F.1."""
MOST_BLOCKS: Final = 1020
"""Blocks of an interval; files with longer ones are left to libjpeg-turbo."""
PAD: Final = 64
"""Bytes before and after each row of samples: edges are repeated there, and vectors end there."""
OTHER_FORM: Final = 10
"""Status of a file that this decoder does not cover; others are those of `splice.find_cells`."""
HUFFMAN_BYTES: Final = 2 + 4 * (17 + 256)
"""Most bytes of a DHT segment's body with four tables, and two bytes before it with its length."""
