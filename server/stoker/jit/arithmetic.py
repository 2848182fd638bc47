"""The two ways to run kernels: as plain Python and NumPy, or as machine code.

One object is passed down instead of a flag; both ways give the same bytes. The interpreter and the
reference use `PLAIN`, workers use `COMPILED`.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any

from stoker.jit.compiling import compiled


class Arithmetic(Enum):
    """The two ways to run kernels."""

    PLAIN = "plain"
    COMPILED = "compiled"

    @property
    def is_compiled(self) -> bool:
        """True if kernels run as machine code."""
        return self is Arithmetic.COMPILED

    def of(self, fn: Callable[..., Any], plain: Callable[..., Any] | None = None) -> Any:
        """Return a kernel in this form.

        Args:
            fn: the kernel.
            plain: what plain Python calls instead where NumPy is faster; None: the kernel itself.
        """
        return compiled(fn) if self.is_compiled else plain or fn


PLAIN = Arithmetic.PLAIN
COMPILED = Arithmetic.COMPILED
