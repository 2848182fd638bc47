"""The packed format: schema, manifest, Arrow files, cells, fingerprints and statistics.

It imports `images` and knows no source and no reader. No numba, no pyarrow.
"""
