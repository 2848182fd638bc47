"""Loops over arrays: resampling, copying, lookups, color spaces, points. They do not know ops.

Ops and their bases import it. It must not import `contract` or any op: a kernel takes arrays and
numbers. Each kernel is plain Python that numba can compile; `simd` has twins written by hand.
"""
