"""Whole numbers in proportion: the method of the largest remainder, in exact fractions."""

import math
from collections.abc import Sequence
from fractions import Fraction


def apportion(count: int, weights: Sequence[Fraction | int], least: int = 0) -> list[int]:
    """Return how many of `count` each part gets.

    Each gets the floor of its exact share; what is left goes to the largest remainders, of equal
    ones to the first. A part that would get fewer than `least` gets as many, and the part with the
    most (of equal ones the first) gives them away.

    Args:
        count: to be shared out; at least `least` times the number of parts.
        weights: positive.
        least: 0 or 1.
    """
    total = sum(weights)
    exact = [Fraction(count * weight) / total for weight in weights]
    found = [math.floor(share) for share in exact]
    order = sorted(range(len(exact)), key=lambda k: (found[k] - exact[k], k))
    for k in order[: count - sum(found)]:
        found[k] += 1
    for k, got in enumerate(found):
        if got < least:
            found[found.index(max(found))] -= least - got
            found[k] = least
    return found
