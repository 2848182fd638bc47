"""The fast engine: a plan becomes a program (a table), which one compiled loop executes.

It imports `plain` to find the step that raised. The only room of the package that imports numba,
and only when a program is loaded.
"""
