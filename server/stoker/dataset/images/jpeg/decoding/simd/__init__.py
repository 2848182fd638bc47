"""Vector code of the decoder, as numba intrinsics: the twins of its plain kernels.

Importing a module of this package imports numba: only `stoker.jit` does, through a twin's name.
Nothing is checked here. See docs/vector-kernels.md for the rules, and docs/jpeg-decoding.md.
"""
