"""stoker.server."""
