"""What a client asks for when it opens a stream: the record, and which options exclude others.

Both sides use it: a Loader builds the record, and OPEN carries it. numba-free.
"""
