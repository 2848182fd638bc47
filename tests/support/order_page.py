"""docs/contracts/order.md, implemented once more from the page alone: permutations and blocks.

Nothing of stoker.order or stoker.rng is used.
"""

import hashlib
import math


def philox(c, k):
    for _ in range(10):
        p, q = c[0] * 0xD2E7470EE14C6C93, c[2] * 0xCA5A826395121157
        c = ((q >> 64) ^ c[1] ^ k[0], q % 2**64, (p >> 64) ^ c[3] ^ k[1], p % 2**64)
        k = ((k[0] + 0x9E3779B97F4A7C15) % 2**64, (k[1] + 0xBB67AE8584CAA73B) % 2**64)
    return c


def words(seed, name, sample_id, epoch, lane, k, count):
    stream = int.from_bytes(hashlib.blake2b(name.encode()).digest()[:8], "little")
    found = []
    for b in range(-(-count // 4)):
        found += philox((k * 2**32 + b, sample_id, epoch, lane), (seed, stream))
    return found[:count]


def radices(n):
    a = 2
    root = math.isqrt(n)
    a = max(a, root - root % 2)
    while a * a < n:
        a += 2
    return a, -(-n // a)


def spread(x, key, size):
    h = ((x ^ key) * 0x9E3779B97F4A7C15) % 2**64
    h = h ^ (h >> 32)
    h = (h * 0xBF58476D1CE4E5B9) % 2**64
    return ((h >> 24) * size) >> 40


def permuted(n, seed, epoch, part, level, x):
    a, b = radices(n)
    count = 96 if n <= 64 else 24
    keys = words(seed, "stoker/order", part, epoch, level, 0, count)
    while True:
        left, right = x // b, x % b
        for i in range(0, count, 2):
            left = (left + spread(right, keys[i], a)) % a
            right = (right + spread(left, keys[i + 1], b)) % b
        x = left * b + right
        if x < n:
            return x


def block_shuffled(n, size, seed, epoch):
    count = math.ceil(n / size)
    ids = []
    for slot in range(count):
        k = permuted(count, seed, epoch, 0, 0, slot)
        length = min(size, n - k * size)
        ids += [k * size + permuted(length, seed, epoch, k, 1, y) for y in range(length)]
    return ids


def integer(seed, name, sample_id, epoch, lane, k, n):
    """The draw `integers(n)` number k of a key."""
    drawn = words(seed, name, sample_id, epoch, lane, k, 16)
    return next(w * n for w in drawn if w * n % 2**64 >= 2**64 % n) >> 64
