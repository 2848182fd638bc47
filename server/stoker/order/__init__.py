"""stoker.order."""
