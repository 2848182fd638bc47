"""Ops on dtypes, layouts and targets: casts, normalization, boxes, keypoints, labels, choices.

One op, one file. They import `bases`, `kernels` and `contract`, and no other op. No numba at
import.
"""
