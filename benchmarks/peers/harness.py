"""Code that a peer's script shares with the other contenders. Runs under the peer's interpreter.

It gives access to the options, the measurement and the files of a workload (`epochs.py`, `files.py`
in the parent folder), which need only NumPy.
"""

import sys
from pathlib import Path

# At the end, so that our modules never hide a module of the peer.
sys.path.append(str(Path(__file__).parents[1]))

from epochs import parser, show
from files import arrays, pairs, photographs

__all__ = ["arrays", "pairs", "parser", "photographs", "show"]

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CIFAR_MEAN, CIFAR_STD = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


def in_levels(part: list[float]) -> list[float]:
    """Scale a mean or deviation to pixels of 0 to 255."""
    return [255 * value for value in part]
