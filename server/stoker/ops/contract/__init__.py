"""What an op is: states, values, kernels, records, the registry, and the checks of parameters.

Every other room of `stoker.ops` may import it, and so may the pipeline. It knows no single op and
no loop over pixels. No numba.
"""
