"""AugMix: several chains of transforms of one image, mixed with the original.

    image = augmix(sample.image, severity=3)

Source: Hendrycks and others, "AugMix: A Simple Data Processing Method to Improve Robustness and
Uncertainty" (ICLR 2020), with torchvision's parameters. A chain is one to three transforms in a row
(`stoker.ops.AugmixTransform`); the mix is `stoker.ops.RandomBlend`. It differs from torchvision in
the center of shears, and in rounding: the mix is rounded, not truncated.

Stream names are paths: `augmix` draws the weights, `augmix/0` the number of transforms in chain 0,
`augmix/0/1` its second transform. Runs while a pipeline is traced.
"""

from __future__ import annotations

import functools
from typing import Any

from stoker.ops.bases.mixing import MOST
from stoker.ops.contract.op import Value
from stoker.ops.contract.parameters import Whole
from stoker.ops.contract.states import ParameterError
from stoker.ops.mixes.augmix_transform import AugmixTransform
from stoker.ops.mixes.random_blend import RandomBlend
from stoker.ops.values.choice_ops import Integer
from stoker.pipeline.authoring.random_choices import tracer_for
from stoker.pipeline.tracing.branches import choose
from stoker.pipeline.tracing.naming import scoped
from stoker.pipeline.tracing.value_refusals import fault

NAME = "augmix"
DRAWN = (1, 3)
"""Minimum and maximum length of a chain whose length is drawn."""
LONGEST = 16


def augmix(  # noqa: PLR0913 - torchvision's
    image: Value,
    *others: Value,
    severity: int = 3,
    mixture_width: int = 3,
    chain_depth: int = -1,
    alpha: float = 1.0,
    all_ops: bool = True,
    interpolation: str = "bilinear",
    fill: int | tuple[int, ...] = 0,
    stream: str | None = None,
) -> Any:
    """Mix an image with versions of it that went through chains of transforms.

    Args:
        image: an RGB or gray image, uint8.
        others: refused: no mask or box matches a mix of images that moved differently.
        severity: how many levels of magnitude there are, 1 to 10.
        mixture_width: number of chains, 1 to 15.
        chain_depth: transforms of a chain, 1 to 16; -1: drawn for each chain, 1 to 3.
        alpha: shape of the beta and Dirichlet draws of the weights, from 0.001 to 1000.
        all_ops: whether brightness, color, contrast and sharpness are among the transforms.
        interpolation: of transforms that move pixels: nearest or bilinear.
        fill: gray level outside of the image, or one for each channel.
        stream: stream name of the weights, and first part of all other names; by default `augmix`,
            prefixed by open scopes.

    Returns:
        The mixed image.

    Raises:
        BuildError: something other than an image is given.
        ParameterError: a parameter is out of range.
    """
    tracer = tracer_for((image, *others), NAME)
    if others:
        raise fault(
            f"{NAME} takes one image, got {1 + len(others)} values: it mixes versions of the image "
            "that were moved in different ways, and no mask, boxes or keypoints match the mix. "
            "Leave them out of this call, or use rand_augment, which moves them along"
        )
    path = stream or scoped(NAME)
    try:
        width = Whole(1, MOST - 1).check(NAME, "mixture_width", mixture_width)
        if chain_depth != -1:
            Whole(1, LONGEST).check(NAME, "chain_depth", chain_depth)
        transform = AugmixTransform(severity, all_ops, interpolation, fill)
        mix = RandomBlend(width + 1, alpha)
    except ParameterError as error:
        own = error.message.startswith(f"{NAME}:")
        raise fault(error.message if own else f"{NAME}: {error.message}") from None
    chains = [_chain(image, transform, chain_depth, f"{path}/{n}") for n in range(width)]
    (mixed,) = tracer.apply(mix, (image, *chains), stream, NAME)
    return mixed


def _chain(image: Value, transform: AugmixTransform, depth: int, path: str) -> Value:
    """Return the result of a chain; a `depth` of -1 is drawn."""
    tracer = tracer_for((image,), path)
    drawn = tracer.choose(Integer(*DRAWN), "number", path, path) if depth == -1 else None
    value = image
    for turn in range(DRAWN[1] if drawn is not None else depth):
        link = functools.partial(transform, value, stream=f"{path}/{turn}")
        if drawn is None or turn < DRAWN[0]:
            value = link()
        else:
            value = choose(drawn > turn, link, functools.partial(_same, value))
    return value


def _same(value: Value) -> Value:
    return value
