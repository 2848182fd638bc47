"""What the ops of one family share: base classes, mixins and kernels that know about parameters.

Ops import it; it imports `contract` and `kernels`, and never an op. No numba.
"""
