"""docs/contracts/randomness.md, implemented once more from the page alone, against its vectors.

The constants are read out of the page itself. Nothing of stoker.rng is used by the independent
implementation; the last tests hold stoker.rng, plain and compiled, to the same vectors.
"""

import hashlib
import json
import math
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from stoker.jit import compiled
from stoker.protocol import version
from stoker.rng import draws, maths, normals, streams
from stoker.rng.philox import philox4x64

CONTRACTS = Path(__file__).parents[2] / "docs" / "contracts"
VECTORS = json.loads((CONTRACTS / "vectors" / "random.json").read_text())
PAGE = (CONTRACTS / "randomness.md").read_text()
HEX = {
    name: float.fromhex(value)
    for name, value in re.findall(r"^([A-Z][A-Z0-9_]*) = (-?0x1\.\S+)$", PAGE, re.MULTILINE)
}
TABLES = {
    name: [float(item) for item in row.split(", ")]
    for name, row in re.findall(r"^([A-Z]+_(?:TOP|BOTTOM)) = (.+)$", PAGE, re.MULTILINE)
}
DRAWS = ["uniform", "uniform_range", "log_uniform", "bernoulli", "normal", "integers"]


def word_of(text):
    return int(text, 16)


def float_of(text):
    return math.nan if text == "nan" else struct.unpack(">d", bytes.fromhex(text))[0]


def text_of(x):
    return "nan" if math.isnan(x) else struct.pack(">d", x).hex()


# --- the independent implementation -------------------------------------------------------------


def block(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = c[0] * 0xD2E7470EE14C6C93, c[2] * 0xCA5A826395121157
        c = [(p1 >> 64) ^ c[1] ^ k[0], p1 % 2**64, (p0 >> 64) ^ c[3] ^ k[1], p0 % 2**64]
        k = [(k[0] + 0x9E3779B97F4A7C15) % 2**64, (k[1] + 0xBB67AE8584CAA73B) % 2**64]
    return c


def word(key, k, j):
    seed, stream, sample_id, epoch, lane = key
    return block((k * 2**32 + j // 4, sample_id, epoch, lane), (seed, stream))[j % 4]


def unit(key, k):
    return float(word(key, k, 0) >> 11) * 2**-53


def polynomial(x, coefficients):
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def page_exp(x):
    if math.isnan(x) or x > HEX["EXP_HIGHEST"]:
        return math.nan if math.isnan(x) else math.inf
    if x < HEX["EXP_LOWEST"]:
        return 0.0
    k = math.trunc(x * HEX["INV_LN2"] + (-0.5 if x < 0 else 0.5))
    high, low = x - k * HEX["LN2_HIGH"], k * HEX["LN2_LOW"]
    r = high - low
    t = r * r
    c = r - t * polynomial(t, [HEX[f"P{i}"] for i in (5, 4, 3, 2, 1)])
    return math.ldexp(1 - ((low - (r * c) / (2 - c)) - high), k)


def page_log(x):
    if math.isnan(x) or x < 0:
        return math.nan
    if x in (0, math.inf):
        return -math.inf if x == 0 else x
    less = 54 if x < 2.0**-1022 else 0
    x = x * 2.0**less
    (bits,) = struct.unpack(">q", struct.pack(">d", x))
    k = (bits - 0x3FE6A09E667F3BCD) >> 52
    f = struct.unpack(">d", struct.pack(">q", bits - k * 2**52))[0] - 1
    k -= less
    s = f / (2 + f)
    z = s * s
    w = z * z
    even = w * polynomial(w, [HEX["L6"], HEX["L4"], HEX["L2"]])
    odd = z * polynomial(w, [HEX["L7"], HEX["L5"], HEX["L3"], HEX["L1"]])
    half = 0.5 * f * f
    return k * HEX["LN2_HIGH"] - ((half - (s * (half + (even + odd)) + k * HEX["LN2_LOW"])) - f)


def page_turned(x, ahead):
    if not abs(x) <= HEX["LARGEST_ANGLE"]:
        return math.nan
    n = math.trunc(x * HEX["TWO_OVER_PI"] + (-0.5 if x < 0 else 0.5))
    a, b = x - n * HEX["PIO2_1"], n * HEX["PIO2_2"]
    c = a - b
    back = a - c
    rest = ((a - (c + back)) + (back - b)) - n * HEX["PIO2_3"]
    r = c + rest
    tail = (c - r) + rest
    z = r * r
    turn = (n + ahead) % 4
    if turn % 2 == 0:
        v = z * r
        p = polynomial(z, [HEX[f"S{i}"] for i in (6, 5, 4, 3, 2)])
        y = r - ((z * (0.5 * tail - v * p) - tail) - v * HEX["S1"])
    else:
        p = z * polynomial(z, [HEX[f"C{i}"] for i in (6, 5, 4, 3, 2, 1)])
        half = 0.5 * z
        w = 1 - half
        y = w + (((1 - w) - half) + (z * p - r * tail))
    return y if turn < 2 else -y


def page_normal(p):
    def quotient(x, name):
        return polynomial(x, TABLES[f"{name}_TOP"]) / polynomial(x, TABLES[f"{name}_BOTTOM"])

    q = p - 0.5
    if abs(q) <= 0.425:
        return q * quotient(0.180625 - q * q, "CENTER")
    r = math.sqrt(-page_log(p if q < 0 else 1 - p))
    z = quotient(r - 1.6, "MIDDLE") if r <= 5 else quotient(r - 5, "TAIL")
    return -z if q < 0 else z


def page_integers(key, k, n):
    j = 0
    while (word(key, k, j) * n) % 2**64 < 2**64 % n:
        j += 1
    return word(key, k, j) * n >> 64


def page_log_uniform(key, k, low, high):
    x = page_log(low) + unit(key, k) * (page_log(high) - page_log(low))
    return min(max(page_exp(x), low), high)


BY_PAGE = {
    "uniform": unit,
    "uniform_range": lambda key, k, a, b: min(a + unit(key, k) * (b - a), b),
    "log_uniform": page_log_uniform,
    "bernoulli": lambda key, k, p: unit(key, k) < p,
    "normal": lambda key, k: page_normal(float(2 * (word(key, k, 0) >> 12) + 1) * 2**-53),
    "integers": page_integers,
}
MATHS_BY_PAGE = {
    "exp": page_exp,
    "log": page_log,
    "sin": lambda x: page_turned(x, 0),
    "cos": lambda x: page_turned(x, 1),
    "inverse_normal": page_normal,
}


# --- the vectors, by the page and by stoker.rng --------------------------------------------------


def test_the_page_the_vectors_and_the_code_are_of_one_version():
    assert VECTORS["contract"] == "random"
    assert VECTORS["version"] == version.RANDOM == version.NUMERIC == 1
    assert PAGE.startswith("# Randomness, version 1\n")
    assert len(HEX) == 10 + 7 + 17
    assert [len(row) for row in TABLES.values()] == [8] * 6


def test_the_page_lists_the_reserved_names():
    for name in (streams.ORDER_STREAM, streams.SUBSTITUTE_STREAM):
        assert name.startswith(streams.RESERVED_PREFIX)
        assert f"`{name}`" in PAGE


def test_stream_keys():
    assert len(VECTORS["stream_keys"]) >= 6
    for case in VECTORS["stream_keys"]:
        digest = hashlib.blake2b(case["name"].encode("utf-8"), digest_size=64).digest()
        assert sum(byte << 8 * i for i, byte in enumerate(digest[:8])) == word_of(case["key"])
        assert streams.stream_key(case["name"]) == word_of(case["key"])


def test_philox_blocks():
    assert len(VECTORS["philox"]) >= 4
    for case in VECTORS["philox"]:
        counter, key, words = ([word_of(x) for x in case[f]] for f in ("counter", "key", "words"))
        assert block(counter, key) == words
        assert philox4x64(tuple(counter), tuple(key)) == tuple(words)


def test_keys_and_freezes():
    assert {case["freeze"] for case in VECTORS["keys"]} == {None, 7, "epoch"}
    for case in VECTORS["keys"]:
        expected = [word_of(x) for x in case["key"]]
        stream = streams.stream_key(case["stream"])
        lane = case["visit"] * 2**16 + case["view"]
        place = [word_of(case["id"]), case["epoch"], lane]
        if case["freeze"] == "epoch":
            place[1] = 0
        elif case["freeze"] is not None:
            place = [case["freeze"], 0, 0]
        assert [word_of(case["seed"]), stream, *place] == expected
        key = streams.make_key(
            word_of(case["seed"]),
            stream,
            word_of(case["id"]),
            case["epoch"],
            case["visit"],
            case["view"],
        )
        assert list(streams.frozen_key(key, case["freeze"])) == expected


def test_words():
    assert len(VECTORS["words"]) >= 18
    for case in VECTORS["words"]:
        key = streams.Key(*(word_of(x) for x in case["key"]))
        expected = [word_of(x) for x in case["words"]]
        assert [word(key, case["k"], j) for j in range(len(expected))] == expected
        assert [draws.word(key, case["k"], j) for j in range(len(expected))] == expected


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name):
    plain = getattr(draws, name)
    fast = compiled(plain)
    assert len(VECTORS[name]) >= 12
    for case in VECTORS[name]:
        key = streams.Key(*(word_of(x) for x in case["key"]))
        read = word_of if name == "integers" else float_of
        arguments = [read(x) for x in case["arguments"]]
        expected = case["value"]
        if not isinstance(expected, bool):
            expected = read(expected)
        assert BY_PAGE[name](key, case["k"], *arguments) == expected
        assert plain(key, case["k"], *arguments) == expected
        if name == "integers":
            arguments = [np.uint64(x) for x in arguments]
        assert fast(streams.machine_key(key), case["k"], *arguments) == expected


@pytest.mark.parametrize("name", MATHS_BY_PAGE)
def test_arithmetic(name):
    plain = getattr(normals if name == "inverse_normal" else maths, name)
    fast = compiled(plain)
    assert len(VECTORS["maths"][name]) >= 10
    for argument, expected in VECTORS["maths"][name]:
        x = float_of(argument)
        assert text_of(MATHS_BY_PAGE[name](x)) == expected, x
        assert text_of(plain(x)) == expected
        assert text_of(fast(x)) == expected


def test_the_page_gives_the_bits_of_the_code_beyond_the_vectors():
    rng = np.random.default_rng(5)
    for x in map(float, rng.uniform(-700, 700, 2000)):
        assert page_exp(x) == maths.exp(x)
        assert page_log(abs(x)) == maths.log(abs(x))
        assert page_turned(x, 0) == maths.sin(x)
        assert page_turned(x, 1) == maths.cos(x)
    for p in map(float, rng.uniform(0, 1, 2000)):
        assert page_normal(p) == normals.inverse_normal(p)
