"""Ops that move pixels: crops, flips, resizes, pads, rotations, warps. One op, one file.

They move masks, boxes and keypoints along with the image. They import `bases`, `kernels` and
`contract`, and no other op. No numba at import.
"""
