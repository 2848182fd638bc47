"""Every code block of docs/pipelines.md runs, in order, in one module."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from stoker.pipeline import nodes

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_guide_runs(tmp_path):
    text = (DOCS / "pipelines.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 10
    assert text.count("```") == 2 * len(blocks)
    path = tmp_path / "pipelines_guide.py"  # branches and kernels need a source file
    path.write_text("\n".join(blocks))
    spec = importlib.util.spec_from_file_location("pipelines_guide", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_graph_page_names_everything():
    """The tables of docs/contracts/graph.md list all nodes and expressions, and the bounds."""

    page = (DOCS / "contracts" / "graph.md").read_text()
    for node in (
        nodes.Input,
        nodes.Context,
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
    assert f"{nodes.MAX_PARAMS_BYTES // 1024} KiB of\nparameters" in page
