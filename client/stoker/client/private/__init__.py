"""A private daemon: a Loader with a path starts it, and it ends with its last client.

`private_daemon` starts it and connects to it; `runtime_folder` decides which process starts and
removes it.
`connection`, `measure` and `stoker.ray` import it. It knows the command line of `stoker serve` and
nothing else of the server, and no stream or batch.
"""
