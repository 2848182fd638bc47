"""float16 by the processor's own conversions.

A folder of its own, so that only what uses it is compiled anew when it changes.
"""
