"""The definition of an op: states, values, kernels, records, registry, and parameter checks.

Every other room of `stoker.ops` may import it, and so may the pipeline. It does not know single ops
or loops over pixels. No numba.
"""
