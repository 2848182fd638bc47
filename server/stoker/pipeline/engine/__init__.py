"""The parts that all engines share: rows and their keys, draws, faults, batch ops, samples.

It imports `planning` and `graph`, but neither of the engines (`plain`, `compiled`). No numba.
"""
