"""The processor that code is compiled for, where twins choose their code by it.

Everything here follows from what `diskcache.toolchain` names, so stored code never meets another
answer.
"""

from typing import Any

import llvmlite.binding
import numba


def is_x86() -> bool:
    """Return whether code is compiled for x86-64, which always has SSE2."""
    triple: str = llvmlite.binding.get_process_triple()
    return triple.startswith("x86_64")


def is_native() -> bool:
    """Return whether code is compiled for the processor that runs, and not for one that is set."""
    config: Any = numba.config
    return config.CPU_NAME is None and config.CPU_FEATURES is None


def has_feature(name: str) -> bool:
    """Return whether code is compiled for this processor, and it has a feature of LLVM's list."""
    return is_native() and bool(llvmlite.binding.get_host_cpu_features().get(name, False))
