"""The text of compiled functions, whether they were compiled here or come from the cache."""

import platform
import re

import capstone
import llvmlite.binding as llvm
from llvmlite.binding.object_file import ObjectFileRef

from stoker.jit.dispatchers import StoredLibrary, has_loops

MULTIPLIES = re.compile(r"= fmul\b")
"""Without it there is nothing to fuse."""
VECTOR = re.compile(r"<\d+ x (i8|i16|i32|float)>|@llvm\.memset")
"""A fill of bytes becomes a call of memset."""
DOUBLES = re.compile(r"= f(?:add|sub|mul|div)[^\n]* double [^\n]*")
WIDE = re.compile(r"= mul [^\n]*<\d+ x i64>")
NARROW = re.compile(r"= mul [^\n]*<\d+ x i32>|@llvm\.x86\.\w+\.pmadd")
TO_FLOATS = re.compile(r"= fptrunc [^\n]*double")

FUSED_BYTES = re.compile(
    rb"(?s:\xc4[\x02\x22\x42\x62\x82\xa2\xc2\xe2](.)|\x62(.)(.).)"
    rb"(?=[\x96-\x9f\xa6-\xaf\xb6-\xbf])"
)
"""The start of a fused instruction of x86-64: a VEX or EVEX prefix, then its code.

Other bytes may look like that, so a match says only that the code is worth disassembling.
"""
DOT_PRODUCT = re.compile(rb"\xc4[\x02\x22\x42\x62\x82\xa2\xc2\xe2].[\x50-\x53]", re.S)
"""AVX-VNNI: capstone 5 knows its instructions with an EVEX prefix only."""


def remember_objects():
    """Keep the object files that are loaded from the cache from now on, for `may_fuse`."""
    hand_over = StoredLibrary._set_compiled_object

    def keep(self, value):
        self.kept_object = value
        hand_over(self, value)

    StoredLibrary._set_compiled_object = keep


def may_fuse(library) -> bool:
    """Return whether machine code has, or may have, a fused multiply-add instruction."""
    found = getattr(library, "kept_object", None) or library._compiled_object
    features = llvm.get_host_cpu_features()
    others = platform.machine() != "x86_64" or features.get("fma4") or features.get("egpr")
    if not found or others:
        return True
    sections = (part.data() for part in ObjectFileRef.from_data(found).sections() if part.is_text())
    return any(
        any(map(_is_fused, FUSED_BYTES.finditer(code))) and not is_unfused(code)
        for code in sections
    )


def is_unfused(code: bytes) -> bool:
    """Return whether all of some machine code of x86-64 can be read, and nothing in it fuses."""
    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    place = 0
    while place < len(code):
        for start, size, name, _ in reader.disasm_lite(code[place:], place):
            place = start + size
            if name.startswith(("vfm", "vfnm")):
                return False
        if place < len(code):
            if not DOT_PRODUCT.match(code, place):
                return False
            code = code[: place + 3] + b"\x40" + code[place + 4 :]  # vpmulld is as long
    return True


def _is_fused(match) -> bool:
    """Return whether a prefix's fields choose the map 0F38 (or 6, of halves) and the prefix 66."""
    short, first, second = match.groups()
    if short is not None:
        return short[0] & 3 == 1
    return first[0] & 11 == 2 and second[0] & 7 == 5


def optimized(made, fn):
    """Return the LLVM IR of a compiled form of a function after the passes that callers run.

    They have already been run over a function with loops.
    """
    library = made.library
    if has_loops(fn):
        return str(library._get_module_for_linking())
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

    The cache keeps the optimized module next to the machine code, and the same code generator makes
    the assembly of it. That takes long, so it is done only for modules that multiply floats and
    whose machine code may fuse.
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
        """True if any of it multiplies floats."""
        return any(map(MULTIPLIES.search, self.texts.values()))

    def inspect_llvm(self):
        """Return LLVM IR by signature."""
        return self.texts

    def inspect_asm(self):
        """Return assembly by signature, of what multiplies floats and may fuse."""
        return {
            types: str(library.codegen._tm.emit_assembly(module))
            for types, (library, module) in self.modules.items()
            if MULTIPLIES.search(self.texts[types]) and may_fuse(library)
        }
