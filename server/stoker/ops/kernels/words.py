"""A float32 as its 32 bits, and back: kernels that do both in one loop are vectorized."""

from typing import Any

import numpy as np

from stoker.jit import kernel


@kernel(twin="stoker.ops.kernels.simd.words:float_word")
def float_word(x: Any) -> Any:
    """Return the bits of a float32 as a uint32."""
    return np.float32(x).view(np.uint32)


@kernel(twin="stoker.ops.kernels.simd.words:word_float")
def word_float(word: Any) -> Any:
    """Return the float32 with the bits of a uint32."""
    return np.uint32(word).view(np.float32)
