"""RandAugment, TrivialAugmentWide and AutoAugment: compositions of ops, joint over all fields.

    image, mask, boxes = rand_augment(sample.image, sample.mask, sample.boxes)

The first value is the image. Geometric transforms move every value, each by the rule for that kind;
the others change the image alone. Only drawn transforms run. For spaces and magnitudes, with
sources and differences, see `policies.magnitudes`. Stream names are paths: `rand_augment/0`
chooses, and `rand_augment/0/rotate` draws for the rotation in the first turn.
"""

from __future__ import annotations

from typing import Any

from stoker.ops.contract.op import Value
from stoker.ops.contract.parameters import Whole, Word
from stoker.ops.contract.states import ParameterError
from stoker.ops.values.choice_ops import OneOf
from stoker.pipeline.authoring.random_choices import among, given, tracer_for
from stoker.pipeline.policies.magnitudes import NAMES, Look, Move, Values, fixed, sometimes, wide
from stoker.pipeline.policies.policies import BINS, POLICIES
from stoker.pipeline.tracing.naming import scoped
from stoker.pipeline.tracing.value_refusals import fault


def rand_augment(
    image: Value,
    *others: Value,
    num_ops: int = 2,
    magnitude: int = 9,
    num_magnitude_bins: int = 31,
    interpolation: str = "nearest",
    fill: int | tuple[int, ...] = 0,
    mask_fill: int = 0,
    stream: str | None = None,
) -> Any:
    """Apply several of 14 transforms in turn, all equally likely and of one magnitude.

    Args:
        image: an RGB image, uint8.
        others: masks, boxes, keypoints or images that are moved with it.
        num_ops: number of turns, at most 16.
        magnitude: from 0 to num_magnitude_bins - 1; the sign is drawn.
        num_magnitude_bins: how many magnitudes there are, from 2.
        interpolation: of images: nearest or bilinear. Masks are always nearest.
        fill: gray level outside of the image, or one for each channel.
        mask_fill: class outside of the mask.
        stream: first part of all stream names; by default `rand_augment`, prefixed by open scopes.

    Returns:
        As many values as were given; a single value is not wrapped in a tuple.

    Raises:
        ParameterError: a number is out of range.
    """
    name = "rand_augment"
    turns = Whole(0, 16).check(name, "num_ops", num_ops)
    bins = Whole(2, 1000).check(name, "num_magnitude_bins", num_magnitude_bins)
    level = Whole(0, bins - 1).check(name, "magnitude", magnitude)
    look = Look(interpolation, fill, mask_fill)
    values: Values = (image, *others)
    for turn in range(turns):
        path = f"{stream or scoped(name)}/{turn}"
        moves = {move: fixed(move, level, bins, look, path) for move in NAMES}
        values = _one(values, moves, f"{name}/{turn}", path if stream else None)
    return given(values)


def trivial_augment_wide(
    image: Value,
    *others: Value,
    num_magnitude_bins: int = 31,
    interpolation: str = "nearest",
    fill: int | tuple[int, ...] = 0,
    mask_fill: int = 0,
    stream: str | None = None,
) -> Any:
    """Apply one of 14 transforms, all equally likely, its magnitude drawn from a wide range.

    Args:
        image: an RGB image, uint8.
        others: masks, boxes, keypoints or images that are moved with it.
        num_magnitude_bins: how many levels posterize and solarize have, from 2 to 62; all other
            magnitudes are uniform in their range.
        interpolation: of images: nearest or bilinear. Masks are always nearest.
        fill: gray level outside of the image, or one for each channel.
        mask_fill: class outside of the mask.
        stream: first part of all stream names; by default `trivial_augment_wide`, prefixed by
            open scopes.

    Returns:
        As many values as were given; a single value is not wrapped in a tuple.

    Raises:
        ParameterError: a number is out of range.
    """
    name = "trivial_augment_wide"
    bins = Whole(2, 62).check(name, "num_magnitude_bins", num_magnitude_bins)
    path = stream or scoped(name)
    look = Look(interpolation, fill, mask_fill)
    moves = {move: wide(move, bins, look, path) for move in NAMES}
    return given(_one((image, *others), moves, name, stream))


def auto_augment(
    image: Value,
    *others: Value,
    policy: str = "imagenet",
    interpolation: str = "nearest",
    fill: int | tuple[int, ...] = 0,
    mask_fill: int = 0,
    stream: str | None = None,
) -> Any:
    """Apply one of 25 learned pairs of transforms, each transform with its own probability.

    Args:
        image: an RGB image, uint8.
        others: masks, boxes, keypoints or images that are moved with it.
        policy: the dataset it was learned on: imagenet, cifar10 or svhn.
        interpolation: of images: nearest or bilinear. Masks are always nearest.
        fill: gray level outside of the image, or one for each channel.
        mask_fill: class outside of the mask.
        stream: first part of all stream names; by default `auto_augment`, prefixed by open scopes.

    Returns:
        As many values as were given; a single value is not wrapped in a tuple.

    Raises:
        ParameterError: there is no such policy.
    """
    name = "auto_augment"
    pairs = POLICIES[Word(tuple(POLICIES)).check(name, "policy", policy)]
    base = stream or scoped(name)
    look = Look(interpolation, fill, mask_fill)
    moves: dict[str, Any] = {}
    for number, pair in enumerate(pairs):
        moves[str(number)] = [
            sometimes(fixed(move, level, BINS, look, path), p, path)
            for place, (move, p, level) in enumerate(pair)
            for path in [f"{base}/{number}/{place}"]
        ]
    return given(_one((image, *others), moves, name, stream))


def _one(values: Values, moves: dict[str, Move | Any], default: str, stream: str | None) -> Values:
    """Run one of the moves, all equally likely."""
    tracer = tracer_for(values, default)
    try:
        choice = tracer.choose(OneOf((1.0,) * len(moves)), "choice", stream, default)
        return among(choice, list(moves.items()), values, default)
    except ParameterError as error:
        raise fault(f"{default}: {error.message}") from None
