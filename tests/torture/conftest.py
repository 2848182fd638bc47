"""The Law's rig, shared by the storms."""

from law_rig import daemon, dataset, law, photographs, source

__all__ = ["daemon", "dataset", "law", "photographs", "source"]
