"""Numbers about a crop as values of a pipeline, which generative models take as input."""

from typing import Any

from stoker.ops.contract.op import Value
from stoker.protocol.errors import BuildError


def crop_numbers(before: Value, after: Value) -> dict[str, Any]:
    """Return the place of a crop in the image, in the form of SDXL's micro-conditioning.

    Args:
        before: the first image or mask that `fit_bucket` or `random_resized_crop` was called with.
        after: the op's result for it.

    Returns:
        `original_height` and `original_width` of the image in pixels, `crop_top` and `crop_left`
        in pixels of the resized image, floor(x + 1/2): int64 values, each of which may be an
        output.

    Raises:
        BuildError: called without values of a pipeline, or `after` is not a result of such an op.
    """
    if not isinstance(before, Value) or not isinstance(after, Value):
        raise BuildError(
            "crop_numbers: expected an image and the result of fit_bucket for it, got "
            f"{type(before).__name__} and {type(after).__name__}"
        )
    tracer = after.tracer
    top, left, height, width = (
        tracer.decided(after, name) for name in ("top", "left", "height", "width")
    )
    return {
        "original_height": tracer.expr("height", before),
        "original_width": tracer.expr("width", before),
        "crop_top": _resized(top, tracer.expr("height", after), height),
        "crop_left": _resized(left, tracer.expr("width", after), width),
    }


def _resized(offset: Any, after: Any, before: Any) -> Any:
    """Return floor(offset * after / before + 1/2)."""
    return (2 * offset * after + before) // (2 * before)
