"""Features of the target processor, as far as twins choose their code by them."""

from typing import Any

import llvmlite.binding
import numba


def is_x86() -> bool:
    """Whether code is compiled for x86-64, which always has SSE2."""
    triple: str = llvmlite.binding.get_process_triple()
    return triple.startswith("x86_64")


def has_feature(name: str) -> bool:
    """Whether code is compiled for this processor, and it has a feature of LLVM's list."""
    config: Any = numba.config
    native = config.CPU_NAME is None and config.CPU_FEATURES is None
    return native and bool(llvmlite.binding.get_host_cpu_features().get(name, False))
