"""The daemon: sockets, sessions, scheduling, workers, memory, and the command line.

`state` holds every decision as pure functions, `daemon` the thin I/O around it, `workers` the child
processes, and `rows` the path of a row. Only `compat` and the child process of `stoker.ray` import
this package; it must not know the client. docs/architecture.md describes the processes.
"""
