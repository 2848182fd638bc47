"""Standard output of commands: tables with borders on a terminal, plain lines elsewhere.

So `grep`, and programs that read a pipe or a file, get each row as one line of any length.
"""

from typing import Final

from rich.console import Console
from rich.table import Table

LONGEST: Final = 2**16
"""Columns of a line that goes to no terminal."""


def output_console() -> Console:
    """Return standard output; where it is no terminal, no line is wrapped or cut."""
    console = Console()
    if not console.is_terminal:
        console.width = LONGEST
    return console


def print_table(console: Console, table: Table) -> None:
    """Print a table; where no terminal shows it, without borders, a line for each row."""
    if not console.is_terminal:
        table.box = None
        table.pad_edge = False
        table.title_justify = "left"
    console.print(table)
