"""Reads a stream over TCP and prints the digest of each batch, then why it ended.

    python remote_reader.py ADDRESS EPOCHS BATCH_SIZE

Runs in its own process, which may be in a network namespace of its own. It waits for a line on
standard input before the first batch.
"""

import sys

from stoker.client import Loader
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import StokerError


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(address: str, epochs: int, batch_size: int) -> None:
    """Read."""
    options = {"dataset": "data", "pipeline": "plain", "device": "numpy", "seed": 5}
    with Loader(address, batch_size=batch_size, **options) as loader:
        say("open")
        sys.stdin.readline()
        for _ in range(epochs):
            for batch in loader:
                say(batch_digest(digest_parts(batch), batch.epoch, batch.step))


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    except StokerError as error:
        say(type(error).__name__)
