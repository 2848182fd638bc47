"""Stoker as a trainer uses it: batches from a daemon's workers, through the client.

    python benchmarks/through_daemon.py PACKED --workload w1 --workers 2 --epochs 3

The daemon is a separate process; the client starts it because it gets a path. Prints one JSON line
per epoch; the first is the warm-up.
"""

import sys

import pipelines
from epochs import parser, show

from stoker.client import Loader


def main() -> int:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--form", default="", help="of the workload's pipeline, such as scaled")
    arguments = options.parse_args()
    name = "_".join(filter(None, (arguments.workload, arguments.form)))
    with Loader(
        str(arguments.source),
        pipeline=getattr(pipelines, name),
        batch_size=arguments.batch_size,
        workers=arguments.workers,
    ) as loader:
        beside = "mask" if arguments.workload == "w3" else "label"
        show(lambda: ((batch.image, getattr(batch, beside)) for batch in loader), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
