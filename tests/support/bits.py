"""Floats by their bits, where NaN equals itself and -0.0 does not equal 0.0."""

import numpy as np


def same_bits(a: float, b: float) -> bool:
    """Return whether two float64 have the same bits."""
    return np.float64(a).tobytes() == np.float64(b).tobytes()
