"""The daemon of a node: `stoker serve`, killed by the kernel when its actor dies in any way.

`python -m stoker.ray.child PARENT serve ...`: PARENT is the process id of the actor.
"""

import sys

from stoker.server.__main__ import main
from stoker.server.workers.death import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv.pop(1)))
    main()
