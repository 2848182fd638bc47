"""The discrete cosine transform of eight numbers and back, in integers, as JPEG coders use it.

Loeffler, Ligtenberg and Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications"
(1989), with constants of 13 fraction bits, in the form of the Independent JPEG Group's accurate
integer transform: the most common one, so that artifacts are those of real files. Results have 13
more fraction bits than the input; a block takes two passes, each of which drops bits by
`descale`. Arguments are integers, or NumPy arrays of int64, transformed element by element.
"""

from typing import Any, Final

from stoker.jit import kernel

BITS: Final = 13
C0_298: Final = 2446
C0_390: Final = 3196
C0_541: Final = 4433
C0_765: Final = 6270
C0_899: Final = 7373
C1_175: Final = 9633
C1_501: Final = 12299
C1_847: Final = 15137
C1_961: Final = 16069
C2_053: Final = 16819
C2_562: Final = 20995
C3_072: Final = 25172


@kernel
def descale(value: Any, bits: int) -> Any:
    """Drop fraction bits, rounded, halves up."""
    return (value + (1 << (bits - 1))) >> bits


@kernel
def forward8(line: Any) -> Any:
    """Return the transform of eight numbers: eight, of 13 more fraction bits, times sqrt(8)."""
    x0, x1, x2, x3, x4, x5, x6, x7 = line
    t0, t7 = x0 + x7, x0 - x7
    t1, t6 = x1 + x6, x1 - x6
    t2, t5 = x2 + x5, x2 - x5
    t3, t4 = x3 + x4, x3 - x4
    even0, even3 = t0 + t3, t0 - t3
    even1, even2 = t1 + t2, t1 - t2
    both = (even2 + even3) * C0_541
    o7, o5, o3, o1 = odd_part(t4, t5, t6, t7)
    return (
        (even0 + even1) << BITS,
        o1,
        both + even3 * C0_765,
        o3,
        (even0 - even1) << BITS,
        o5,
        both - even2 * C1_847,
        o7,
    )


@kernel
def inverse8(line: Any) -> Any:
    """Return eight numbers from their transform: of 13 more fraction bits, times sqrt(8)."""
    x0, x1, x2, x3, x4, x5, x6, x7 = line
    both = (x2 + x6) * C0_541
    t2, t3 = both - x6 * C1_847, both + x2 * C0_765
    t0, t1 = (x0 + x4) << BITS, (x0 - x4) << BITS
    even0, even3 = t0 + t3, t0 - t3
    even1, even2 = t1 + t2, t1 - t2
    o0, o1, o2, o3 = odd_part(x7, x5, x3, x1)
    return (
        even0 + o3,
        even1 + o2,
        even2 + o1,
        even3 + o0,
        even3 - o0,
        even2 - o1,
        even1 - o2,
        even0 - o3,
    )


@kernel
def odd_part(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the rotations of the odd half, which is its own inverse except for the order."""
    z1, z2, z3, z4 = a + d, b + c, a + c, b + d
    z5 = (z3 + z4) * C1_175
    z1, z2 = -z1 * C0_899, -z2 * C2_562
    z3, z4 = z5 - z3 * C1_961, z5 - z4 * C0_390
    return (
        a * C0_298 + z1 + z3,
        b * C2_053 + z2 + z4,
        c * C3_072 + z2 + z3,
        d * C1_501 + z1 + z4,
    )
