"""Making and checking datasets: jobs for worker processes, shards, resuming, verification.

It may import every other room of the package. Nothing but `opening` and the command line imports
it.
"""
