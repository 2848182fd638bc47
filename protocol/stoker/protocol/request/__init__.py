"""The request of a client that opens a stream: options, their record, and what excludes what.

Both sides use it: a Loader builds the record from its arguments, and OPEN carries it; commands
build the same record from their flags. numba-free.
"""
