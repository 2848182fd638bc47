"""From a graph and a schema to a plan: states, sizes, branches, memory, and shortcuts.

It imports `graph` and ops, but no engine and no numba. A plan is data: every engine runs the same.
"""
