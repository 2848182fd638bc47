"""Tables and the plot of the results of `throughput.py`.

    python benchmarks/report.py [benchmarks/results] [--plot FILE.svg] [--into PAGE.md]

Rates are medians over the epochs, with their least and greatest; ratios are those of the medians.
An epoch in which the rest of the machine used more than `NOISE` of one core is dropped, and the
number of dropped epochs is printed. `--into` replaces the text between the two marks in a page.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
NOISE = 0.12
ORDER = ("w1", "w1f", "w2", "w3", "w4")
BEGIN = "<!-- what benchmarks/report.py writes begins here -->"
END = "<!-- and ends here -->"


class Row(NamedTuple):
    """The result of a contender.

    Attributes:
        rate: median images per second; `low` and `high` are the least and the greatest.
        thrift: median images per CPU-second.
        kept: number of epochs that count.
        dropped: the epochs that do not count, in words.
    """

    rate: float
    low: float
    high: float
    thrift: float
    kept: int
    dropped: str


def quiet(epochs: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return the epochs that the rest of the machine did not disturb."""
    return [e for e in epochs if e["other_cpu_s"] <= NOISE * e["seconds"]]


def row_of(epochs: list[dict[str, float]]) -> Row:
    """Summarize a contender's epochs."""
    kept = quiet(epochs) or epochs
    rates = [epoch["images_per_s"] for epoch in kept]
    return Row(
        statistics.median(rates),
        min(rates),
        max(rates),
        statistics.median(epoch["images"] / epoch["cpu_s"] for epoch in kept),
        len(kept),
        str(len(epochs) - len(kept)) if quiet(epochs) else "all noisy, all kept",
    )


def table(found: dict[str, Any]) -> str:
    """Return the table of a workload in Markdown, with the ratios of a and e to every contender."""
    rows = {name: row_of(epochs) for name, epochs in found["epochs"].items()}
    ours = [name for name in "ae" if name in rows]
    head = ["", "contender", "images/s: median (min..max)", "epochs", "dropped"]
    head += ["images per CPU-second", *(f"{name} / it" for name in ours)]
    head += [f"{name} / it, per CPU-second" for name in ours[:1]]
    title = f"**{found['workload']}**: {found['what']}, batch {found['batch_size']}"
    lines = [title, "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, row in rows.items():
        cells = [name, found["contenders"][name]]
        cells += [f"{row.rate:,.0f} ({row.low:,.0f}..{row.high:,.0f})", str(row.kept), row.dropped]
        cells += [f"{row.thrift:,.0f}", *(f"{rows[one].rate / row.rate:.2f}" for one in ours)]
        cells += [f"{rows[one].thrift / row.thrift:.2f}" for one in ours[:1]]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(results: list[dict[str, Any]]) -> str:
    """Return all tables, and once the machine and versions that they were measured with."""
    versions = {name: text for found in results for name, text in found["versions"].items()}
    peers = ", ".join(f"{name} {text}" for name, text in sorted(versions.items()))
    first = results[0]
    rounds = f"{first['rounds']} rounds, {first['workers']} workers"
    head = f"{first['machine']}; peers: {peers or 'none'}. {rounds}."
    return "\n\n".join([head, *(table(found) for found in results)])


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the results of a folder, in the order of the workloads."""
    paths = [folder / f"{workload}.json" for workload in ORDER]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def put(text: str, into: str) -> str:
    """Return a page with its text between the marks replaced."""
    before, begin, rest = into.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page has no lines {BEGIN!r} and {END!r}; put them where it belongs")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?", default=HERE / "results")
    parser.add_argument("--plot", type=Path, help="an SVG file to write")
    parser.add_argument("--into", type=Path, help="a Markdown page with the two marks")
    arguments = parser.parse_args()
    results = read(arguments.results)
    if not results:
        raise SystemExit(f"{arguments.results} holds no results; run benchmarks/throughput.py")
    print(page(results))
    if arguments.plot:
        from chart import chart, save  # noqa: PLC0415 - the one part that needs matplotlib

        panels = [
            (
                f"{found['workload']}: {found['what']}",
                {found["contenders"][name]: row_of(e) for name, e in found["epochs"].items()},
            )
            for found in results
        ]
        save(chart(panels), arguments.plot)
    if arguments.into:
        arguments.into.write_text(put(page(results), arguments.into.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
