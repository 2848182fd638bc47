"""The Law's rig, for the tests of this folder."""

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
