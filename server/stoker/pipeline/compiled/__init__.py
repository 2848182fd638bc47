"""The fast engine: a plan becomes a program (a table), which one compiled loop executes.

`authoring`, the server's rows and workers, and `compat` import it. It imports `plain` to find the
step that raised. It must not know how a graph was written (`tracing`, `authoring`). The only room
of the package that imports numba, and only when a program is loaded.
"""
