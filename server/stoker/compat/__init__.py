"""Compatibility: code written for other data loaders, ported by changing its import lines."""
