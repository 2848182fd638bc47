"""Ops that read neighboring pixels or overwrite some: blurs, noise, JPEG artifacts, erasing.

One op, one file. They import `bases`, `kernels` and `contract`, and no other op. No numba at
import.
"""
