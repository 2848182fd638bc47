"""The interpreter: a plan run with plain NumPy, step by step. The reference of `compiled`.

It also reports the decisions for a sample (`decisions`) and replays it (`replay`). It must not
import `compiled`. No numba.
"""
