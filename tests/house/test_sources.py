"""Guards over the text of the sources: what may not be called, named or waited for."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CODE = re.compile(r"^(protocol|client|server)/")
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
CALLS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {("torch", "load"), ("numpy", "load"), ("np", "load"), ("yaml", "load")}
ATTRIBUTES |= {("zmq", "recv_pyobj"), ("zmq", "send_pyobj")}

# path -> (what is used there, why it is safe): none of them sees a byte that was received.
REASONED: dict[str, tuple[set[str], str]] = {
    "server/stoker/pipeline/tracing/rewrite.py": (
        {"compile"},
        "compiles the rewritten syntax tree of a function that its author has imported already",
    ),
    "server/stoker/pipeline/tracing/edits.py": (
        {"compile"},
        "compiles a file that its author has imported already, to compare it; runs nothing",
    ),
    "server/stoker/compat/ffcv/rewriting.py": (
        {"compile"},
        "compiles the rewritten syntax tree of an operation that the script itself has imported",
    ),
}


def uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of every use of what can turn data into code."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            names = [node.module or ""]
        elif isinstance(node, ast.Name) and node.id in CALLS:
            names = [node.id]
        elif isinstance(node, ast.Attribute):
            names = _attribute(node)
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            names = (
                [] if isinstance(node.value, ast.Constant) and not node.value.value else ["pickle"]
            )
        yield from ((getattr(node, "lineno", 0), name) for name in names)


def _attribute(node: ast.Attribute) -> list[str]:
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    if (owner, node.attr) in ATTRIBUTES or node.attr.endswith("_pyobj"):
        return [f"{owner}.{node.attr}"]
    return []


def test_nothing_received_can_become_code(sources: dict[str, ast.Module]) -> None:
    found = [
        f"{name}:{line}: {used}"
        for name, tree in sources.items()
        for line, used in uses(tree)
        if used not in REASONED.get(name, (set(), ""))[0]
    ]
    assert found == []


def test_each_reason_is_still_needed(sources: dict[str, ast.Module]) -> None:
    for name, (allowed, reason) in REASONED.items():
        assert reason
        assert {used for _, used in uses(sources[name])} >= allowed, (
            f"{name} no longer uses {allowed}"
        )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import pickle", "pickle"),
        ("from marshal import loads", "marshal"),
        ("x = eval('1')", "eval"),
        ("run = exec", "exec"),
        ("torch.load(f)", "torch.load"),
        ("np.load(f, allow_pickle=True)", "pickle"),
        ("socket.recv_pyobj()", "socket.recv_pyobj"),
    ],
)
def test_the_guard_notices(text: str, name: str) -> None:
    assert name in {used for _, used in uses(ast.parse(text))}


def test_the_guard_lets_the_rest_pass() -> None:
    assert not list(uses(ast.parse("re.compile('a'); loader.load(f); f(allow_pickle=False)")))


def unready(tree: ast.AST) -> list[int]:
    """Return the lines where msgspec reads into a type that `analyzed` has not seen."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("msgspec."):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        place = {"convert": 1, "decode": 1, "Decoder": 0}.get(name)
        if place is None:
            continue
        kinds = [*node.args[place:], *(k.value for k in node.keywords if k.arg == "type")]
        found += [node.lineno for kind in kinds if "analyzed(" not in ast.unparse(kind)]
    return found


def test_types_are_analyzed_before_threads_read_into_them(sources: dict[str, ast.Module]) -> None:
    """See stoker.protocol.analysis, the one module that may leave it out."""
    found = [name for name, tree in sources.items() if unready(tree)]
    assert found == ["protocol/stoker/protocol/analysis.py"]
    for text in (
        "msgspec.convert(a, B)",
        "msgspec.json.decode(a, type=B)",
        "msgspec.json.Decoder(B)",
    ):
        assert unready(ast.parse(text)) == [1]


def narrow(tree: ast.AST) -> list[int]:
    """Return the lines that use select(2), which refuses descriptors above 1,023."""
    names = {"select.select", "selectors.SelectSelector"}
    return [
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in names)
        or (
            isinstance(node, ast.ImportFrom)
            and any(f"{node.module}.{alias.name}" in names for alias in node.names)
        )
    ]


def test_nothing_waits_with_select(sources: dict[str, ast.Module]) -> None:
    """A daemon with 400 sessions has descriptors above 1,023, and so have trainings."""
    found = {name: narrow(tree) for name, tree in sources.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}
    for text in ("select.select([a], [], [])", "from select import select", "select.select"):
        assert narrow(ast.parse(text)) == [1]


def test_no_test_sleeps(root: Path, tracked: list[Path]) -> None:
    tests = [
        path for path in tracked if path.suffix == ".py" and path.is_relative_to(root / "tests")
    ]
    assert len(tests) > 5
    texts = {path: path.read_text() for path in tests}
    sleeps = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path, text in texts.items()
        if "sleep" in text
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Attribute) and node.attr == "sleep")
        or (isinstance(node, ast.ImportFrom) and any(a.name == "sleep" for a in node.names))
    ]
    assert sleeps == []


def test_no_file_knows_the_machine_it_was_written_on(root: Path, tracked: list[Path]) -> None:
    private = re.compile("/(?:wor" + "k|roo" + "t)/|/home/(?!stoker)[a-z]")
    found = []
    for path in tracked:
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(root)}: {m[0]}" for m in private.finditer(text)]
    assert found == []


def test_tests_are_no_packages(tracked: list[Path], root: Path) -> None:
    inits = [p for p in tracked if p.name == "__init__.py" and p.is_relative_to(root / "tests")]
    assert inits == []


def test_no_python_is_started_with_the_current_folder(root: Path, tracked: list[Path]) -> None:
    """`python -m` puts it before Python's own modules; `python -P -m` does not."""
    code = [path for path in tracked if CODE.match(str(path.relative_to(root)))]
    starts = [
        line
        for path in code
        if path.suffix == ".py"
        for line in path.read_text().splitlines()
        if "sys.executable" in line and not line.lstrip().startswith("#")
    ]
    assert len(starts) >= 4
    assert [line for line in starts if '"-P"' not in line] == []
