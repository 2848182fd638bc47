"""The parts of `stoker.ops.testing`: memory, folds and items of an op under test.

Only `ops.testing`, which users import, and the guarded engine of `pipeline.compiled` import them.
They must not know single ops or numba.
"""
