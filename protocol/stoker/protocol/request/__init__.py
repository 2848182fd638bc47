"""The request of a client that opens a stream: the record, and the options that exclude others.

Both sides use it: a Loader builds the record, and OPEN carries it. numba-free.
"""
