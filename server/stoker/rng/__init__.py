"""Random draws without state, and arithmetic without libm.

`streams` makes keys, `draws` makes numbers from them, `maths` has exp, log, sin and cos.
Specified in docs/contracts/randomness.md. Importing this package never imports numba.
"""
