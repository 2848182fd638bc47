"""The text of compiled functions, whether they were compiled here or come from the cache."""

import re

MULTIPLIES = re.compile(r"= fmul\b")
"""Without it there is nothing to fuse."""


class Kept:
    """Replaces a dispatcher where `machine_code.violations` reads its code.

    The cache keeps the optimised module beside the machine code; what the same code generator makes
    of it is the assembly. Only modules that multiply floats are worth that.
    """

    def __init__(self, fast):
        self.py_func = fast.py_func
        self.modules = {
            types: (made.library, made.library._get_module_for_linking())
            for types, made in fast.overloads.items()
        }
        self.texts = {types: str(module) for types, (_, module) in self.modules.items()}

    @property
    def multiplies(self):
        """Whether any of it multiplies floats."""
        return any(map(MULTIPLIES.search, self.texts.values()))

    def inspect_llvm(self):
        """Return LLVM IR by signature."""
        return self.texts

    def inspect_asm(self):
        """Return assembly by signature, of what multiplies floats."""
        return {
            types: str(library.codegen._tm.emit_assembly(module))
            for types, (library, module) in self.modules.items()
            if MULTIPLIES.search(self.texts[types])
        }
