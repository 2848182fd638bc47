"""Samples of a dataset in O(1): maps of files, columns, decoding; live sources.

Runs in workers and in user processes. It imports `format` and `images`, but nothing of packing, and
neither pyarrow nor numba.
"""
