"""Medians of windows of 5 by comparisons alone, many at a time.

Each column of five is sorted once, for the five windows that contain it. With a window's columns
sorted, and then its rows, 6 of the 25 levels are surely not above the median and 6 not below. The
median of the other 13 is found by elimination: of any 8 of them neither the minimum nor the maximum
can be it; both are dropped and a new one is added, until three are left.
"""

from typing import Any

from stoker.jit import kernel


@kernel
def two(a: Any, b: Any) -> Any:
    """Return two levels in order."""
    return min(a, b), max(a, b)


@kernel
def sorted5(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Return five levels in order, by nine comparisons."""
    a, b = two(a, b)
    d, e = two(d, e)
    c, e = two(c, e)
    c, d = two(c, d)
    b, e = two(b, e)
    a, d = two(a, d)
    a, c = two(a, c)
    b, d = two(b, d)
    b, c = two(b, c)
    return a, b, c, d, e


@kernel
def inner2(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return four levels without the minimum and the maximum, in no order."""
    a, b = two(a, b)
    c, d = two(c, d)
    return max(a, c), min(b, d)


@kernel
def inner3(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Return five levels without the minimum and the maximum, in no order."""
    a, b = two(a, b)
    c, d = two(c, d)
    a, c = two(a, c)
    b, d = two(b, d)
    return b, c, min(max(a, e), d)


@kernel
def inner4(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
    """Return six levels without the minimum and the maximum, in no order."""
    a, b = two(a, b)
    c, d = two(c, d)
    e, f = two(e, f)
    a, c = two(a, c)
    d, b = two(b, d)
    return c, d, max(a, e), min(b, f)


@kernel
def inner5(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any:
    """Return seven levels without the minimum and the maximum, in no order."""
    a, b = two(a, b)
    c, d = two(c, d)
    e, f = two(e, f)
    a, c = two(a, c)
    d, b = two(b, d)
    a, e = two(a, e)
    f, b = two(f, b)
    return c, d, e, f, min(max(a, g), b)


@kernel
def middle(a: Any, b: Any, c: Any) -> Any:
    """Return the median of three."""
    return max(min(a, b), min(max(a, b), c))


@kernel
def sort_fives(image: Any, at: Any, stride: Any, lines: Any, n: Any) -> None:
    """Sort the five levels of each of some columns.

    Args:
        image: the image with its border, flat.
        at: index of the first column's first level.
        stride: values from row to row.
        lines: five lines of sorted levels, lowest first.
        n: columns.
    """
    l0, l1, l2, l3, l4 = lines
    for j in range(n):
        a = at + j
        b, c = a + stride, a + stride + stride
        d, e = c + stride, c + stride + stride
        l0[j], l1[j], l2[j], l3[j], l4[j] = sorted5(
            image[a], image[b], image[c], image[d], image[e]
        )


@kernel
def row_of(line: Any, j: Any, step: Any) -> Any:
    """Return five levels of a line, `step` values apart, in order."""
    b, c = j + step, j + step + step
    d, e = c + step, c + step + step
    return sorted5(line[j], line[b], line[c], line[d], line[e])


@kernel
def store_fives(lines: Any, step: Any, image: Any, at: Any, count: Any) -> None:
    """Write `count` medians of 25 from sorted columns, `step` values apart."""
    l0, l1, l2, l3, l4 = lines
    for j in range(count):
        _, _, _, a3, a4 = row_of(l0, j, step)
        _, _, b2, b3, b4 = row_of(l1, j, step)
        _, c1, c2, c3, _ = row_of(l2, j, step)
        d0, d1, d2, _, _ = row_of(l3, j, step)
        e0, e1, _, _, _ = row_of(l4, j, step)
        # Of these 8 the minimum is a3, b2 or c1, and the maximum b4 or c3.
        low, x = two(a3, b2)
        p, q, r, s, t = inner5(a4, b3, c2, max(low, c1), x, min(b4, c3), d0)
        p, q, r, s = inner4(p, q, r, s, t, d1)
        p, q, r = inner3(p, q, r, s, d2)
        p, q = inner2(p, q, r, e0)
        image[at + j] = middle(p, q, e1)
