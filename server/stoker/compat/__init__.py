"""Compatibility: code written for other data loaders, moved over by changing its import lines."""
