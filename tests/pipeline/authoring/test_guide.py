"""docs/contracts/graph.md names every node, expression and bound."""

from __future__ import annotations

from pathlib import Path

from stoker.pipeline.graph import nodes

DOCS = Path(__file__).parents[3] / "docs"


def test_graph_page_names_everything():
    """The tables of docs/contracts/graph.md list all nodes and expressions, and the bounds."""
    page = " ".join((DOCS / "contracts" / "graph.md").read_text().split())
    for node in (
        nodes.Input,
        nodes.Fact,
        nodes.Const,
        nodes.Draw,
        nodes.Apply,
        nodes.Expr,
        nodes.If,
    ):
        assert f"| `{node.__struct_config__.tag}` |" in page
    for op in nodes.EXPRESSIONS:
        assert f"`{op}`" in page
    for bound in (
        f"{nodes.MAX_NODES} nodes",
        f"{nodes.MAX_DEPTH} deep",
        f"{nodes.MAX_OUTPUTS} outputs",
    ):
        assert bound in page
    assert f"{nodes.MAX_ARGS} values to a node" in page
    assert f"{nodes.MAX_PARAMS_BYTES // 1024} KiB of parameters" in page
