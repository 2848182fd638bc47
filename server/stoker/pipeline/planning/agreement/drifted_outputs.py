"""Outputs that drifted apart: images of two fields, and arrays that belong to an image.

A second image, a depth image, a map of floats or an array of boxes is a target as a mask is, but a
pipeline may also make views that have nothing to do with each other. So less is refused than of
masks (`planning.agreement.geometric_history`):

- Images of two fields are refused if one lacks some of the moves of the other, or if both followed
  a decision that was drawn, and then parted. Images whose moves have nothing in common are views.
  All images of one field are views, too: an original next to its crop is one.
- An array cannot be moved. It is refused if no image among the outputs is where it was in the
  dataset, and the array has the size of an image in the dataset, or a name and a shape of boxes or
  keypoints.

Resizes do not count, since the image and the map still show the same at the same part of their
sides. They count for boxes and keypoints, which are in pixels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

from stoker.ops.contract.states import VECTORS, State
from stoker.pipeline.planning.agreement.geometric_history import (
    Divergence,
    Histories,
    History,
    Move,
    agreeing,
    compared,
    first_difference,
)

RESIZES: Final = frozenset({"resize", "resize_short", "resize_long", "random_short_side_scale"})
"""Ops after which everything is at the same part of the sides."""
BOXES: Final = re.compile(r"box|xyxy|xywh|ltrb|(?:^|_)rois?(?:_|\d|$)", re.IGNORECASE)
POINTS: Final = re.compile(r"key_?point|kpt|landmark|polygon", re.IGNORECASE)
PAIRS: Final = re.compile(r"(?:^|_)(?:points?|joints?|centers?|xy)(?:_|\d|$)", re.IGNORECASE)
"""Names of keypoints and, if they have two coordinates, of points in an image."""
MOST_OF_A_BOX: Final = 6
"""Numbers of a box with its class and its score."""
LEAST_OF_POINTS: Final = 4
"""Numbers of two points in a row."""

Named = tuple[str, int]


def check_apart(histories: Histories, outputs: Sequence[Named], unlinked: Sequence[str]) -> None:
    """Refuse images of two fields, and arrays next to images, that drifted apart.

    Raises:
        BuildError: names both outputs, the op, both lines and the remedies.
    """
    known = [(name, value) for name, value in outputs if value in histories.of]
    linked = [one for one in known if one[0] not in unlinked]
    images = [one for one in known if histories.kinds[one[1]] == "image"]
    for name, value in linked:
        for field in sorted(histories.fields[value]):
            if histories.bound.given[field].kind == "array":
                _check_array(histories, (name, value), field, images)
    _check_images(histories, [one for one in images if one in linked])


def _check_images(histories: Histories, images: Sequence[Named]) -> None:
    groups: dict[frozenset[str], list[Named]] = {}
    for one in images:
        groups.setdefault(histories.fields[one[1]], []).append(one)
    sources = list(groups)
    for place, source in enumerate(sources):
        for other in sources[place + 1 :]:
            if source.isdisjoint(other):
                _check_two(histories, groups[source], groups[other])


def _check_two(histories: Histories, left: Sequence[Named], right: Sequence[Named]) -> None:
    """Refuse the images of two fields if none of one fits one of the other."""
    apart = []
    for one, other in product(left, right):
        mine, theirs = (without_resizes(histories.of[value]) for _, value in (one, other))
        if list(compared(mine)) == list(compared(theirs)):
            return
        if _lacks(mine, theirs) or _lacks(theirs, mine) or _drawn(mine) & _drawn(theirs):
            apart.append((one, other, mine, theirs))
    if apart:
        one, other, mine, theirs = max(
            apart, key=lambda found: agreeing(list(compared(found[2])), list(compared(found[3])))
        )
        missed, by_other = first_difference(mine, theirs)
        moved, still = (other, one) if by_other else (one, other)
        _refuse(
            histories,
            missed,
            moved,
            still,
            "the images would not fit each other. Call it with both, as in "
            f"ops.{missed.op}({moved[0]}, {still[0]}), or deliver ops.unlinked({still[0]}) if that "
            "is intended",
        )


def _check_array(histories: Histories, array: Named, field: str, images: Sequence[Named]) -> None:
    state = histories.bound.given[field]
    what = _items_in(state, field, array[0])
    found: list[tuple[int, Named, History]] = []
    for image in images:
        moves = histories.of[image[1]]
        states = [histories.bound.given[name] for name in sorted(histories.fields[image[1]])]
        if not what and not any(is_map_of(state, one) for one in states):
            continue
        moves = moves if what else without_resizes(moves)
        if list(compared(moves)) == list(compared(histories.of[array[1]])):
            return
        found.append((len(moves), image, moves))
    if found:
        _, image, moves = min(found, key=lambda one: one[0])
        missed, by_image = first_difference(histories.of[array[1]], moves)
        moved, still = (image, array) if by_image else (array, image)
        kind, how = _declaration(state, field, what)
        like = f"looks like {what}" if what else "has the size of the image"
        _refuse(
            histories,
            missed,
            moved,
            still,
            f"field {field!r} is {state}, which {like}, and would not fit it. Declare it as {how}, "
            f"and call the op with both, as in ops.{missed.op}(image, {kind}), or deliver "
            f"ops.unlinked({array[0]}) if that is intended",
        )


def _refuse(histories: Histories, missed: Move, moved: Named, still: Named, why: str) -> None:
    sites = histories.bound.graph.site
    histories.bound.fail(
        missed.value,
        f"{missed.op} moves output {moved[0]!r}, but not output {still[0]!r} (from "
        f"{sites(still[1])}): {why}",
        op=missed.op,
    )


def is_map_of(array: State, image: State) -> bool:
    """Return whether an array's first or last two sides are the size of an image in the dataset."""
    size = (*image.shape[:2], *image.bound[:2])
    ends = (slice(0, 2), slice(-2, None))
    sides = [(*array.shape[end], *array.bound[end]) for end in ends]
    return len(array.shape) >= 2 and size in sides


def _items_in(state: State, *names: str) -> str:
    """Return what an array looks like by a name and its shape: boxes, keypoints, or nothing."""
    if not 1 <= len(state.shape) <= 2:
        return ""
    count = state.shape[-1]
    if count is not None and any(map(BOXES.search, names)) and 4 <= count <= MOST_OF_A_BOX:
        return "boxes"
    flat = len(state.shape) == 1 and (count or 0) >= LEAST_OF_POINTS
    points = flat or (len(state.shape) == 2 and count in (2, 3))
    pairs = len(state.shape) == 2 and count == 2
    named = points and any(map(POINTS.search, names))
    return "keypoints" if named or (pairs and any(map(PAIRS.search, names))) else ""


def _declaration(state: State, field: str, what: str) -> tuple[str, str]:
    """Return the kind that an array should have, and how to declare it."""
    if what:
        key = {"boxes": "xyxy", "keypoints": "xy"}[what]
        return what, (
            f'schema.{what}("{field}"), with values such as {{"{key}": array}} (in process: such a '
            "dict)"
        )
    if state.dtype.startswith("float") or len(state.shape) > 2:
        return "image", (
            f'schema.image("{field}", encoding="raw", dtype="float32", channels=C), with values '
            f'(H, W, C) (in process: kinds={{"{field}": "image"}}){_vectors(state, field)}'
        )
    return "mask", f'schema.mask("{field}") (in process: kinds={{"{field}": "mask"}})'


def _vectors(state: State, field: str) -> str:
    """Return how to declare a map of floats that may be flow or normals."""
    kind = next((kind for kind, count in VECTORS.items() if state.shape[2:] == (count,)), None)
    return "" if kind is None else f', or as schema.{kind}("{field}") if it is {kind}'


def without_resizes(history: History) -> History:
    """Return a history without the resizes that keep everything at its part of the sides."""
    return tuple(_without_resizes(history))


def _without_resizes(history: History) -> Iterator[Move | Divergence]:
    for one in history:
        if isinstance(one, Divergence):
            left, right = without_resizes(one.then), without_resizes(one.orelse)
            if left or right:
                yield Divergence(one.cond, left, right)
        elif one.op not in RESIZES:
            yield one


def _drawn(history: History) -> frozenset[bytes]:
    """Return the decisions of a history that were drawn."""
    found: set[bytes] = set()
    for one in history:
        if isinstance(one, Divergence):
            found |= _drawn(one.then) | _drawn(one.orelse)
        elif one.drawn:
            found.add(one.key)
    return frozenset(found)


def _lacks(few: History, many: History) -> bool:
    """Return whether a history is another one without some of its moves."""
    rest: Iterator[Any] = iter(many)
    return all(any(_within(one, other) for other in rest) for one in few)


def _within(one: Any, other: Any) -> bool:
    """Return whether an entry of a history is another one, or that without some of its moves."""
    if isinstance(one, Divergence) and isinstance(other, Divergence):
        same = one.cond == other.cond
        return same and _lacks(one.then, other.then) and _lacks(one.orelse, other.orelse)
    return bool(one == other)
