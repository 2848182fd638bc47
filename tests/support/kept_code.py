"""The text of compiled functions, whether they were compiled here or come from the cache."""

import re

MULTIPLIES = re.compile(r"= fmul\b")
"""Without it there is nothing to fuse."""
VECTOR = re.compile(r"<\d+ x (i8|i16|i32|float)>|@llvm\.memset")
"""A fill of bytes becomes a call of memset."""
DOUBLES = re.compile(r"= f(?:add|sub|mul|div)[^\n]* double [^\n]*")
WIDE = re.compile(r"= mul [^\n]*<\d+ x i64>")
NARROW = re.compile(r"= mul [^\n]*<\d+ x i32>|@llvm\.x86\.\w+\.pmadd")
TO_FLOATS = re.compile(r"= fptrunc [^\n]*double")


def optimized(made):
    """Return the LLVM IR of a compiled form after the passes that callers run over it."""
    library = made.library
    module = library._get_module_for_linking().clone()
    module.get_function(made.fndesc.llvm_func_name).linkage = "external"  # else it is dropped
    passes, builder = library._codegen._module_pass_manager()
    passes.run(module, builder)
    return str(module)


def loop_faults(text: str) -> dict[str, str]:
    """Return what is to be said of a pixel loop: a word, and the line of IR that it is about."""
    body = instructions(text)
    found = {}
    for word, pattern, where in (
        ("wide", WIDE, body),
        ("float64", DOUBLES, body),
        ("of floats", TO_FLOATS, text),
    ):
        if line := pattern.search(where):
            found[word] = line[0]
    if not VECTOR.search(text):
        found["scalar"] = ""
    if not NARROW.search(text):
        found["no int32"] = ""
    return found


def instructions(text: str) -> str:
    """Keep the bodies of functions, without numba's wrappers for Python."""
    parts = re.split(r"(?=^define )", text, flags=re.M)
    return "".join(p for p in parts if p.startswith("define") and "cpython" not in p.split("(")[0])


class Kept:
    """Replaces a dispatcher where `machine_code.violations` reads its code.

    The cache keeps the optimized module beside the machine code; what the same code generator makes
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
