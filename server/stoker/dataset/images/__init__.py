"""Encoded images: JPEG, PNG, LZ4 bands; headers, orientation, transcoding, decoding of boxes.

Functions on bytes and arrays: it knows no schema, file or manifest. `format`, `sources` and
`reading` import it. No numba, no pyarrow.
"""
