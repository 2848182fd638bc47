"""stoker.ops."""
