"""`compare`: Stoker and any other loader, on one host, in turns.

Each measurement is a process of its own (`compared_run`), with all that it starts. `stoker compare`
calls it. Stoker's side needs the extra `server`, as every private daemon does.
"""

from stoker.client.compare.comparing import ComparedSide, Comparison, compare

__all__ = ["ComparedSide", "Comparison", "compare"]
