"""What all engines share: rows and their keys, draws, faults, batch ops, samples.

It imports `planning` and `graph`, and neither of the two engines (`plain`, `compiled`). No numba.
"""
