"""Every decision of the daemon, as pure functions: `handle(event) -> [instruction]`.

There is no clock, socket, process or randomness in here: time and tokens arrive in events, effects
leave as instructions. So a failure can be replayed from its list of events, and a test can try
millions of schedules without a single process. Only `daemon` imports it. It must not know rows,
datasets or pipelines; of `order` it uses the arithmetic.
"""
