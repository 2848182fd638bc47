"""What people read about a plan: `explain`. It computes nothing that an engine uses. No numba."""
