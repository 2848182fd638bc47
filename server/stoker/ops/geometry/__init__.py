"""Ops that move pixels: crops, flips, resizes, pads, rotations, warps. One op, one file.

They move masks, boxes and keypoints along with the image. Those that mirror can swap keypoints,
with the op of `values`. Otherwise they import `bases`, `kernels` and `contract`, and no other op.
No numba at import.
"""
