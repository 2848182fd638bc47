"""Forms of batches for outputs whose rows differ in shape: set where a pipeline returns them.

    return {"image": outputs.pad(image, multiple=32), "tokens": outputs.ragged(sample.tokens)}

By default rows are stacked, and must have one shape. A form is part of the pipeline's identity. An
in-process call makes no batches, so it returns every output in its own shape. The forms are
specified in docs/contracts/forms.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from stoker.ops.contract.numbers import settled
from stoker.pipeline.graph.nodes import MAX_MULTIPLE, Form
from stoker.pipeline.graph.sites import Site
from stoker.pipeline.tracing.value_refusals import fault
from stoker.pipeline.tracing.values import TracedValue, Unusable


class Formed(Unusable):
    """A value with the form in which it is delivered; valid only where a pipeline returns it."""

    def __init__(self, value: TracedValue, form: Form) -> None:
        self.tracer = value.tracer
        self.value = value
        self.form = form

    def refuse(self, site: Site | None = None) -> NoReturn:
        """Raise the error for any other use."""
        raise fault(
            f"a form ({self.form.form}) says how an output makes a batch: use it only in the dict "
            "that the pipeline returns, after all ops",
            site,
        )


def pad(value: object, *, multiple: int = 1, fill: float = 0, to: str = "longest") -> Any:
    """Deliver rows in one array, each padded to the longest row of the global batch.

    The batch also holds `<name>.size`: (rows, 2) height and width for images and masks, (rows, 1)
    the length for other arrays; `batch.real(name)` turns it into a mask.

    Args:
        value: image, mask or array.
        multiple: sides are rounded up to a multiple of this, 1 to 65536.
        fill: value of the padding, a number that the output's dtype can hold.
        to: "longest", or "bound": every batch is as long as the longest possible row (in a bucket
            of sequences, the bucket's length); for models that are compiled for few shapes.

    Raises:
        BuildError: an argument is invalid.
    """
    multiple, fill = settled(multiple), settled(fill)
    number = isinstance(multiple, int) and not isinstance(multiple, bool)
    if not number or not 1 <= multiple <= MAX_MULTIPLE:
        raise fault(f"outputs.pad: expected multiple from 1 to {MAX_MULTIPLE}, got {multiple!r}")
    real = isinstance(fill, int | float) and not isinstance(fill, bool)
    if not real or not math.isfinite(fill) or abs(fill) > 2**63 - 1:
        raise fault(f"outputs.pad: expected fill to be a finite number, got {fill!r}")
    if to not in ("longest", "bound"):
        raise fault(f"outputs.pad: expected to='longest' or 'bound', got {to!r}")
    return _formed(value, "pad", multiple, fill, to)


def ragged(value: object) -> Any:
    """Deliver rows one after the other: `values`, and `offsets` of where each begins.

    Args:
        value: image, mask, array or bytes. Boxes and keypoints are always delivered like this.

    Raises:
        BuildError: it is not a value of the sample.
    """
    return _formed(value, "ragged")


def as_list(value: object) -> Any:
    """Deliver a list of arrays, one per row, each in its own shape.

    Such an output may contain images with different numbers of channels.

    Args:
        value: image, mask, array or bytes.

    Raises:
        BuildError: it is not a value of the sample.
    """
    return _formed(value, "list")


def _formed(
    value: object, form: Any, multiple: int = 1, fill: float = 0, to: Any = "longest"
) -> Formed:
    name = {"list": "as_list"}.get(form, form)
    if isinstance(value, Formed):
        raise fault(f"outputs.{name}: expected a value without a form, got {value.form.form}")
    if isinstance(value, Unusable):
        value.refuse()
    if not isinstance(value, TracedValue):
        raise fault(
            f"outputs.{name}: expected a value made from the sample's fields, got "
            f"{type(value).__name__}"
        )
    return Formed(value, Form("", form, multiple, fill, to))


def forms_of(given: Any) -> tuple[Any, tuple[Form, ...]]:
    """Return a pipeline's outputs without forms, and the forms with the names of their outputs."""
    if not isinstance(given, Mapping):
        return given, ()
    values = {
        key: value.value if isinstance(value, Formed) else value for key, value in given.items()
    }
    forms = tuple(
        msgspec.structs.replace(value.form, output=key)
        for key, value in given.items()
        if isinstance(value, Formed) and isinstance(key, str)
    )
    return values, forms
