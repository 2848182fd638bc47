"""Every decision of the daemon, as pure functions: `handle(event) -> [instruction]`.

No clock, no socket, no process and no randomness in here: time and tokens arrive in events, effects
leave as instructions. So a failure is replayed from its list of events, and millions of schedules
are tried in a test without one process.
"""
