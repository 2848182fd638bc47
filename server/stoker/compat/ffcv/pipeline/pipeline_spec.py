"""`PipelineSpec`: a pipeline with a name of its own, such as a second view of a field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PipelineSpec:
    """A value of the dictionary `pipelines` of a `Loader`.

    Attributes:
        source: name of the field that it reads.
        decoder: its first operation; None: the default decoder of the field.
        transforms: the operations after that. Without a decoder they may begin with one; none or
            empty without a decoder: `ToTensor` is added.
    """

    source: str
    decoder: Any = None
    transforms: Sequence[Any] | None = ()
