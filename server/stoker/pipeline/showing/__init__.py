"""Text about a plan for people: `explain`. It computes nothing that an engine uses. No numba."""
