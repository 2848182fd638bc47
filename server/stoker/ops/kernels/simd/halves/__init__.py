"""float16 by the processor's own conversions, as twins of `kernels.half`.

Only `stoker.jit` imports it, through the twin's name, as importing it imports numba. It must not
import `simd`: in a folder of its own, only its users are compiled again when it changes.
"""
