"""From a Python function to a graph: syntax is rewritten, then the function runs on tracers.

It may import `graph` alone. It knows no dataset, no sizes and no engine. No numba.
"""
