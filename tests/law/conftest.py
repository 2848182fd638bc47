"""The Law's rig, for the tests of this folder."""

from law_rig import boxed, daemon, dataset, datasets, law, photographs, source

__all__ = ["boxed", "daemon", "dataset", "datasets", "law", "photographs", "source"]
