"""stoker.rng."""
