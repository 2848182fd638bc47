"""A mark for outputs that do not follow the image on purpose."""

from stoker.ops.contract.op import Value
from stoker.protocol.errors import BuildError


def unlinked(value: Value) -> Value:
    """Return a value that may be delivered although an op moved only the image, or only the value.

    Without the mark that is an error when the pipeline is built: a mask, boxes or keypoints that
    missed an op no longer fit the image. The mark changes no bytes, and values made from a marked
    value are marked too.

    Args:
        value: a mask, boxes or keypoints of the sample, or what ops made of them.

    Raises:
        BuildError: it is not a value of a pipeline.
    """
    if not isinstance(value, Value):
        raise BuildError(
            f"ops.unlinked: expected a mask, boxes or keypoints of a sample, got {value!r}"
        )
    return value.tracer.unlink(value)
