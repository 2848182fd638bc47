"""Random draws without state, arithmetic without libm, and the way from plain to machine code.

`streams` makes keys, `draws` makes numbers of them, `maths` has exp, log, sin and cos, `jit`
compiles. Specified in docs/contracts/randomness.md. Importing this package never imports numba.
"""
