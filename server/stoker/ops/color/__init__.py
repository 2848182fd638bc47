"""Ops that change values pixel by pixel or by a histogram: levels, channels, color spaces.

Targets pass unchanged. One op, one file. They import `bases`, `kernels` and `contract`, and no
other op. No numba at import.
"""
