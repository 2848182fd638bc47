"""float16 by the processor's own conversions.

A separate folder, so that only its users are compiled again when it changes.
"""
