"""Samples of a dataset in O(1): maps of files, columns, decoding; live sources.

Workers and users run it. It imports `format` and `images`, and nothing of packing. No pyarrow, no
numba.
"""
