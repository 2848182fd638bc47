"""Making and checking datasets: jobs for worker processes, shards, resuming, verification.

Only `opening`, `verify`, the command line and `compat` import it. It may import every other room
of the package except those two. It must not know pipelines, orders or the daemon.
"""
