"""The parts that ops of one family share: base classes, mixins and kernels that read parameters.

Ops import it; it imports `contract` and `kernels`, but never an op. No numba.
"""
