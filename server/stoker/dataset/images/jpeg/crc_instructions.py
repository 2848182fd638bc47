"""CRC32C by the processor's instruction, 8 bytes at once: the twin of `checksums.crc_of`.

x86-64 has one since SSE 4.2, arm64 since version 8.1. Other processors take the loop over bytes.
Nothing is checked here: the caller stays inside of all arrays.
"""

from typing import Any, Final, NamedTuple

import numba
import numba.extending
from llvmlite import ir
from numba.core import cgutils

from stoker.dataset.images.jpeg.checksums import TABLE
from stoker.jit.kernels import handwritten
from stoker.jit.processor import has_feature

types: Any = numba.types
function: Any = cgutils.get_or_insert_function
intrinsic: Any = numba.extending.intrinsic
I8, I32, I64 = (ir.IntType(bits) for bits in (8, 32, 64))
_ONES: Final = 0xFFFFFFFF


class CrcForms(NamedTuple):
    """Names of the two forms of an instruction in LLVM, and widths that differ.

    `wide_register`: the form of 8 bytes has a register of 64 bits. `wide_byte`: the form of a byte
    takes it as 32 bits.
    """

    of_a_byte: str
    of_8_bytes: str
    wide_register: bool
    wide_byte: bool


X86: Final = CrcForms(
    "llvm.x86.sse42.crc32.32.8", "llvm.x86.sse42.crc32.64.64", wide_register=True, wide_byte=False
)
ARM: Final = CrcForms(
    "llvm.aarch64.crc32cb", "llvm.aarch64.crc32cx", wide_register=False, wide_byte=True
)


def instruction() -> CrcForms | None:
    """Return the instruction of this processor, if code is compiled for it and it has one."""
    if has_feature("crc32"):
        return X86
    return ARM if has_feature("crc") else None


def build_crc(builder: Any, used: CrcForms, before: Any, first: Any, length: Any) -> Any:
    """Write the code for `length` bytes from an address on; return their CRC32C.

    The first 1 to 8 bytes come as one word with zeros before them, which change an empty register
    not at all; so all further steps have 8 bytes.
    """
    register = builder.xor(builder.trunc(before, I32), ir.Constant(I32, _ONES))
    short = builder.icmp_signed("<", length, ir.Constant(I64, 8))
    with builder.if_else(short) as (if_short, if_long):
        with if_short:
            of_bytes = _loop(builder, used, I8, register, first, length)
            short_end = builder.basic_block
        with if_long:
            rest = builder.and_(builder.sub(length, ir.Constant(I64, 1)), ir.Constant(I64, 7))
            word = builder.xor(_load(builder, first, I64), builder.zext(register, I64))
            unused = builder.sub(ir.Constant(I64, 56), builder.mul(rest, ir.Constant(I64, 8)))
            begun = _step(builder, used, I64, ir.Constant(I32, 0), builder.shl(word, unused))
            kept = builder.lshr(builder.zext(register, I64), builder.mul(rest, ir.Constant(I64, 8)))
            kept = builder.trunc(builder.lshr(kept, ir.Constant(I64, 8)), I32)
            taken = builder.add(rest, ir.Constant(I64, 1))
            place, words = builder.add(first, taken), builder.sub(length, taken)
            of_words = _loop(builder, used, I64, builder.xor(begun, kept), place, words)
            long_end = builder.basic_block
    found = builder.phi(I32)
    found.add_incoming(of_bytes, short_end)
    found.add_incoming(of_words, long_end)
    return builder.zext(builder.xor(found, ir.Constant(I32, _ONES)), I64)


def _loop(builder: Any, used: CrcForms, kind: Any, before: Any, first: Any, length: Any) -> Any:
    """Step over whole words of a type, maybe none; return the register."""
    begin, stop = builder.basic_block, builder.add(first, length)
    test, body, after = (builder.append_basic_block(f"crc_{name}") for name in ("", "of", "end"))
    builder.branch(test)
    builder.position_at_end(test)
    place, register = builder.phi(I64), builder.phi(I32)
    builder.cbranch(builder.icmp_unsigned("<", place, stop), body, after)
    builder.position_at_end(body)
    following = _step(builder, used, kind, register, _load(builder, place, kind))
    further = builder.add(place, ir.Constant(I64, kind.width // 8))
    for phi, at_first, later in ((place, first, further), (register, before, following)):
        phi.add_incoming(at_first, begin)
        phi.add_incoming(later, body)
    builder.branch(test)
    builder.position_at_end(after)
    return register


def _step(builder: Any, used: CrcForms, kind: Any, register: Any, word: Any) -> Any:
    """Add a word to the register."""
    wide = kind is I64 and used.wide_register
    state = I64 if wide else I32
    operand = I32 if kind is I8 and used.wide_byte else kind
    name = used.of_8_bytes if kind is I64 else used.of_a_byte
    signature = ir.FunctionType(state, [state, operand])
    step = function(builder.module, signature, name)
    register = builder.zext(register, I64) if wide else register
    word = builder.zext(word, I32) if operand is not kind else word
    result = builder.call(step, [register, word])
    return builder.trunc(result, I32) if wide else result


def _load(builder: Any, place: Any, kind: Any) -> Any:
    some = builder.load(builder.inttoptr(place, kind.as_pointer()))
    some.align = 1
    return some


@intrinsic  # type: ignore[untyped-decorator]
def _by_instruction(_context: Any, before: Any, data: Any, begin: Any, end: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        before, data, begin, end = arguments
        array = context.make_array(signature.args[1])(context, builder, data)
        first = builder.add(builder.ptrtoint(array.data, I64), begin)
        used = instruction()
        assert used is not None
        return build_crc(builder, used, before, first, builder.sub(end, begin))

    return types.int64(types.int64, data, types.int64, types.int64), build


@handwritten
def _by_bytes(before, data, begin, end):  # type: ignore[no-untyped-def]
    register = before ^ _ONES
    for i in range(begin, end):
        register = TABLE[(register ^ data[i]) & 0xFF] ^ (register >> 8)
    return register ^ _ONES


crc_of = _by_bytes if instruction() is None else _by_instruction
