"""The packed format: schema, manifest, Arrow files, cells, fingerprints and statistics.

It imports `images`, but no source and no reader. It uses neither numba nor pyarrow.
"""
