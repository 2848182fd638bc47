"""The decoder of gridded JPEGs: intervals to pixels, without libjpeg.

It covers what `stoker pack` writes on a grid in gray or YCbCr, and its pixels equal
libjpeg-turbo's. A box is decoded in bands of MCU rows (`bands`): `unstuffing` copies intervals,
`entropy` decodes six at a time with the lookups of `tables`, `blocks` sums DC, finds damage and
lists blocks, `transform` makes levels of them, `sampling` and `color` make rows of pixels. `head`
decides from the header whether a file is covered, `window` lays out the memory. Kernels with loops
over pixels or bits have vector forms in `simd`. docs/jpeg-decoding.md has pictures.
"""

from stoker.dataset.images.jpeg.decoding.choice import choose_decoder, is_own_decoder_chosen
from stoker.dataset.images.jpeg.decoding.decoder import BoxDecoder

__all__ = ["BoxDecoder", "choose_decoder", "is_own_decoder_chosen"]
