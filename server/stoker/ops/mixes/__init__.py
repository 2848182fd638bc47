"""Ops that combine several images: blends, stacks, mixup, cutmix, mosaic, AugMix's chains.

Batch ops read other rows of their group of eight. They may import the loops of color and filter
ops, which AugMix repeats. No numba at import.
"""
