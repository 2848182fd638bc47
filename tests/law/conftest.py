"""The Law's rig, for the tests of this folder."""

from law_rig import daemon, dataset, law, photographs, source

__all__ = ["daemon", "dataset", "law", "photographs", "source"]
