"""Coefficients of gridded JPEGs as bit planes instead of Huffman codes: the encoding `planes`.

`plane_form` has what a file consists of, `plane_files` makes one of a gridded JPEG and back,
`plane_writer` codes intervals, `plane_intervals` decodes them with the bits of `plane_bits`. The
rest of the decoder is that of `decoding`, which imports this room. docs/contracts/jpeg-planes.md
specifies it.
"""
