"""The graph of a pipeline: nodes, canonical form, pipeline id, checks, call sites.

Pure data and functions on it: what travels to the daemon. It imports no other room, no numba and
does no I/O.
"""
