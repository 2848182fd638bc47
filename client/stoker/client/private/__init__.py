"""A private daemon: a Loader with a path starts it, and it ends with its last client.

`daemon` starts it and connects to it, `folder` decides which process starts and removes it.
Imported by the client alone. Knows the command line of `stoker serve` and nothing else of the
server.
"""
