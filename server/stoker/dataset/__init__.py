"""stoker.dataset."""
