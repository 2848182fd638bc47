"""Impossible uses of a value in a pipeline: the error has the line, and says what to write."""

import math

import numpy as np
import pytest

from stoker import ops
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError

FIELDS = {
    "vector": np.float32([1, 2, 5]),
    "bytes8": np.uint8([200, 3]),
    "matrix": np.ones((2, 3), np.float32),
    "number": np.int64(1),
    "image": np.zeros((8, 9, 3), np.uint8),
    "flags": np.array([True, False]),
    "half": np.float16([1, 2]),
    "wide": np.uint64([1, 2]),
}
FUNCTION = r".*ops\.python\(function, value\)"


def unpacked(sample):
    left, _right = sample.vector
    return {"x": left}


def looped(sample):
    return {"x": [value for value in sample.vector]}  # noqa: C416


def assigned(sample):
    sample.vector[0] = 1
    return {"x": sample.vector}


def deleted(sample):
    del sample.vector[0]
    return {"x": sample.vector}


def all_sides(sample):
    height, _width, _channels = sample.image.shape
    return {"x": height}


def truth(sample):
    return {"x": 1 if sample.vector else 0}


def truth_of_a_chain(sample):
    return {"x": 1 if 0 < sample.vector < 3 else 0}


def array_and_element(sample):
    return {"x": (sample.vector > 3) and sample.vector[0] > 1}


def truth_of_an_image(sample):
    return {"x": 1 if sample.image else 0}


def membership(sample):
    return {"x": 1 if 2 in sample.vector else 0}


def logic_of_numbers(sample):
    return {"x": (sample.vector and sample.vector).any()}


CASES = [
    (unpacked, r"cannot be iterated over or unpacked: .*as in box\[0\] and box\[1\]"),
    (looped, r"cannot be iterated over or unpacked: .*value\.sum\(\), value\.any\(\)"),
    (assigned, r"its elements cannot be assigned or deleted.*value \* 2.*" + FUNCTION),
    (deleted, r"its elements cannot be assigned or deleted"),
    (all_sides, r"write image\.shape\[0\], or height, width = image\.shape\[:2\]"),
    (truth, r"the truth of an array is ambiguous; write value\.any\(\) or value\.all\(\)"),
    (truth_of_a_chain, r"got array bool\[3\]: the truth of an array is ambiguous"),
    (array_and_element, r"got array bool\[3\]: the truth of an array is ambiguous.*\(x > 0\) & "),
    (truth_of_an_image, r"ask for a statistic, as in value\.mean\(\) > 60"),
    (membership, r"`in` field 'vector': write \(value == number\)\.any\(\)"),
    (logic_of_numbers, r"and: .* of arrays take bools: compare first, as in \(x > 0\) & \(y > 0\)"),
    (lambda s: float(s.number), r"float\(x\), int\(x\) and bool\(x\) can be left out.*" + FUNCTION),
    (lambda s: math.sqrt(s.number), r"for math\.sqrt\(x\), round\(x\) and the like," + FUNCTION),
    (lambda s: np.sqrt(s.vector), r"NumPy cannot be called inside a pipeline" + FUNCTION),
    (lambda s: np.sum(s.vector), r"sum takes no argument: it covers the whole value"),
    (lambda s: s.vector.sum(axis=0), r"sum takes no argument: it covers the whole value"),
    (lambda s: f"{s.number}", r"an f-string cannot hold it"),
    (lambda s: s.vector**2, r"write x \* x for x \*\* 2; for other operators," + FUNCTION),
    (lambda s: abs(s.number), r"write `x if x > 0 else -x` for a number"),
    (lambda s: max(s.vector[0], s.vector[1]), r"For max\(a, b\) write `a if a > b else b`"),
    (lambda s: s.vector.std(), r"has no 'std': use mean\(\) and sum\(\), or ops\.python"),
    (lambda s: s.vector[1:], r"expected an index for each side, .*got a slice.*" + FUNCTION),
    (lambda s: s.matrix[..., 0], r"expected an index for each side, .*got \.\.\."),
    (lambda s: s.vector[True], r"expected an index for each side, .*got bool True"),
    (lambda s: s.matrix[1], r"an index for each of its 2 sides, as in value\[i, j\], got 1"),
    (lambda s: s.vector[s.vector[0]], r"a whole number of 64 bits as index, got scalar float64"),
    (lambda s: s.vector[-4], r"index -4 is out of bounds: side 0 has 3 elements"),
    (lambda s: s.number[0], r"expected an array, which has elements; leave the index out"),
    (lambda s: s.vector.shape[1], r"array float32\[3\] has no side 1; it has 1 sides"),
    (lambda s: s.vector + s.matrix, r"have different shapes: expected two arrays of one shape"),
    (lambda s: s.vector + np.ones(3), r"got list\. An array of your own cannot take part"),
    (lambda s: s.bytes8 + 300, r"300 does not fit uint8, which holds 0 to 255: use ops\.cast"),
    (lambda s: s.vector % 2, r"%: // and % take integers; use / and a comparison"),
    (lambda s: s.flags + s.flags, r"\+ of bools is not supported: write & \(both\), \| "),
    (lambda s: s.flags.max(), r"bools have no order, got .*; write any\(\)"),
    (lambda s: s.half * 2, r"arithmetic on float16 is not supported; .* by ops\.cast"),
    (lambda s: s.wide + 1, r"arithmetic on uint64 is not supported"),
    (
        lambda s: s.image / 255,
        r"images and masks are not operands.*to_float" + FUNCTION,
    ),
    (lambda s: ops.layout(s.image, order="CHW") * 2, r"images and masks are not operands"),
    (lambda s: ops.normalize(s.image) * 2, r"images and masks are not operands"),
]


@pytest.mark.parametrize(("define", "said"), CASES)
def test_the_line_and_what_to_write(define, said):
    if define.__name__ == "<lambda>":
        value = define

        def define(sample):
            return {"x": value(sample)}

    with pytest.raises(BuildError, match=r"test_what_to_write\.py:\d+: .*" + said):
        pipeline(define).plan_for(FIELDS)


def test_and_and_or_read_no_element_where_their_left_side_decides():
    @pipeline
    def train(sample, ctx):
        size, place = len(sample.vector), sample.number
        first = place < size and (sample.vector[place] > 1 and ctx.chance(1.0))
        last = place >= size or not (size > 9 or sample.vector[place] > 1)
        return {"first": first, "last": last}

    found = [
        train(FIELDS | {"number": np.int64(number)}, compiled=compiled)
        for compiled in (False, True)
        for number in (0, 1, 7)
    ]
    assert [row["first"].item() for row in found] == [False, True, False] * 2
    assert [row["last"].item() for row in found] == [True, False, True] * 2


def test_chains_compute_each_operand_once_and_in_order():
    seen = []

    def note(value):
        seen.append(value)
        return value

    @pipeline
    def train(sample):
        found = 0 < note(sample.vector[1]) < note(sample.vector[2]) < 9
        plain = 3 > note(2) > note(2) > note(0)
        return {"x": found, "plain": 1 if plain else sample.number - sample.number}

    row = train(FIELDS)
    assert row["x"]
    assert row["plain"] == 0
    assert seen[-2:] == [2, 2]  # the third comparison is not reached
