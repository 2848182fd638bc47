"""The parts of `stoker.ops.testing`, which users import. Nothing else may import these."""
