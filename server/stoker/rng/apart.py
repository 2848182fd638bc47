"""Calls of kernels that stay apart: the caller's machine code names them, and holds none of theirs.

numba copies the code of every callee into its caller and translates the whole again, so a new
pipeline of known kernels would cost the time of all its kernels. Here a caller (the glue of a
pipeline) gets an external call instead, by a name that is a digest of the kernel's content and of
the types it is called with. The name is given to LLVM together with the address of the kernel's own
machine code before any caller is compiled or loaded, so nothing is left to be found later.

The calling convention is numba's own, and the kernel's code is the very code that a direct caller
runs. Imports numba; only `stoker.rng.jit` imports this module. Call under its lock.
"""

import copy
import hashlib
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
from numba import types
from numba.core.registry import cpu_target
from numba.extending import models, register_model

Types = tuple[Any, ...]
_published: set[str] = set()


class Apart:
    """Stands in a caller's globals for a compiled kernel that is called across the border.

    Attributes:
        symbols: argument types -> name of the external function. A call with other types has the
            kernel's code copied in, as numba does it.
    """

    def __init__(self, fast: Any, digest: str, signatures: Sequence[Types]) -> None:
        """Compile a kernel for its signatures, or load it, and publish its addresses.

        Args:
            fast: numba's dispatcher of the kernel.
            digest: what `stoker.rng.diskcache.kernel_digest` says of the kernel.
            signatures: the argument types that calls will have.
        """
        self._fast = fast
        self.symbols = {tuple(args): _publish(fast, digest, tuple(args)) for args in signatures}

    @property
    def _numba_type_(self) -> Any:
        return _ApartType(self._fast, self.symbols)


class _ApartType(types.Dispatcher):
    """The type of an `Apart`: typed as its kernel, but called by name."""

    def __init__(self, fast: Any, symbols: dict[Types, str]) -> None:
        self._symbols = symbols
        super().__init__(fast)

    def get_impl_key(self, sig: Any) -> Any:
        """Return what the target context has the implementation of a call under."""
        return self._symbols.get(tuple(sig.args)) or super().get_impl_key(sig)


register_model(_ApartType)(models.OpaqueModel)


def _publish(fast: Any, digest: str, args: Types) -> str:
    """Make a kernel known to LLVM and to numba by a name of its content; return the name."""
    content = f"{digest} {args}"
    name = f"stoker.{fast.__name__}.{hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}"
    fast.compile(args)
    if name in _published:
        return name
    compiled = fast.overloads[args]
    llvm.add_symbol(name, compiled.library.get_pointer_to_function(compiled.fndesc.mangled_name))
    called = copy.copy(compiled.fndesc)
    called.mangled_name = name
    cpu_target.target_context.insert_user_function(name, called)
    _published.add(name)
    return name
