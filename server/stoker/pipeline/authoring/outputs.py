"""How an output makes a batch where its rows differ in shape: said where a pipeline returns it.

    return {"image": outputs.pad(image, multiple=32), "tokens": outputs.ragged(sample.tokens)}

Without a word rows are stacked, and have one shape. A form is a part of the pipeline's identity. In
process a pipeline makes no batches, so there every output is handed out in its own shape. What the
forms are is specified in docs/contracts/forms.md. numba-free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

import msgspec

from stoker.ops.contract.numbers import settled
from stoker.pipeline.graph.nodes import MAX_MULTIPLE, Form
from stoker.pipeline.graph.sites import Site
from stoker.pipeline.tracing.values import TracedValue, Unusable, fault


class Formed(Unusable):
    """A value with the form in which it is delivered; stands where a pipeline returns it."""

    def __init__(self, value: TracedValue, form: Form) -> None:
        self.tracer = value.tracer
        self.value = value
        self.form = form

    def refuse(self, site: Site | None = None) -> NoReturn:
        """Raise the error of a use anywhere else."""
        raise fault(
            f"a form ({self.form.form}) says how an output makes a batch: it stands in the dict "
            "that the pipeline returns, after all ops",
            site,
        )


def pad(value: object, *, multiple: int = 1, fill: float = 0, to: str = "longest") -> Any:
    """Deliver rows in one array, each filled up to the longest row of the global batch.

    The batch also holds `<name>.size`, (rows, 2) height and width of images and masks, (rows, 1)
    the length of other arrays; `batch.real(name)` makes a mask of it.

    Args:
        value: image, mask or array.
        multiple: sides are rounded up to a multiple of this, 1 to 65536.
        fill: what stands behind a row, a number that the output's dtype can hold.
        to: "longest", or "bound": every batch is as long as a row can be at most, in a bucket of
            sequences as long as that; for models that are compiled for few shapes.

    Raises:
        BuildError: an argument cannot be.
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
    """Deliver rows one after the other: `values`, and `offsets` that say where each begins.

    Args:
        value: image, mask, array or bytes. Boxes and keypoints are delivered so anyway.

    Raises:
        BuildError: it is no value of the sample.
    """
    return _formed(value, "ragged")


def as_list(value: object) -> Any:
    """Deliver a list of arrays, one for each row, in shapes of their own.

    Images of differing numbers of channels may meet in such an output.

    Args:
        value: image, mask, array or bytes.

    Raises:
        BuildError: it is no value of the sample.
    """
    return _formed(value, "list")


def _formed(
    value: object, form: Any, multiple: int = 1, fill: float = 0, to: Any = "longest"
) -> Formed:
    name = {"list": "as_list"}.get(form, form)
    if isinstance(value, Formed):
        raise fault(f"outputs.{name}: an output has one form, and this one is {value.form.form}")
    if isinstance(value, Unusable):
        value.refuse()
    if not isinstance(value, TracedValue):
        raise fault(
            f"outputs.{name}: expected a value made of the sample's fields, got "
            f"{type(value).__name__}"
        )
    return Formed(value, Form("", form, multiple, fill, to))


def forms_of(given: Any) -> tuple[Any, tuple[Form, ...]]:
    """Return what a pipeline returned without forms, and the forms, named by their outputs."""
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
