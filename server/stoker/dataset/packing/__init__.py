"""Making and checking datasets: jobs for worker processes, shards, resuming, verification.

It may import every other room of the package. Only `opening`, `verify` and the command line import
it.
"""
