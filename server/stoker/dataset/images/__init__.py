"""Encoded images: JPEG, PNG, LZ4 bands; headers, orientation, transcoding, decoding of boxes.

Functions on bytes and arrays, without schemas, files or manifests. `format`, `sources` and
`reading` import it. It uses neither numba (except `jpeg`) nor pyarrow.
"""
