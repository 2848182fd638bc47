"""User functions as ops: decorated ops, Python callables, and their safeguards.

`provenance` names the code in the pipeline id; `purity` rejects other random generators; `foreign`
seeds and restores global ones around a call. Nothing here knows a built-in op. No numba at import.
"""
