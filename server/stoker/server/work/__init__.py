"""The records that the daemon and its child processes exchange, and how rows are cut into work.

Pure data: no I/O, no clock, no numba. `daemon`, `state`, `workers` and `rows` all import it.
"""
