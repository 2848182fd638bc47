"""The Law's rig, shared by the storms."""

from law_rig import (
    arrows,
    boxed,
    daemon,
    dataset,
    datasets,
    law,
    photographs,
    source,
    tars,
)

__all__ = [
    "arrows", "boxed", "daemon", "dataset", "datasets", "law", "photographs", "source", "tars",
]  # fmt: skip
