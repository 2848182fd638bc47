"""Promises of pages that a mistake is refused: the sentence, the mistake, and what the error says.

`@refused` turns a function of a sample into a pipeline that makes the mistake, and notes which
sentence of which page promises that it is refused. To prove another promise, write such a function
in a module of `MODULES`; `test_refusals.py` tries each through every way in. Promises that are
about no pipeline are in `refusals.toml`, each with the test that proves it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from stoker.pipeline import pipeline
from stoker.pipeline.authoring.pipeline import Pipeline

MODULES = ("refused_targets", "refused_language", "refused_numbers", "refused_ops", "refused_code")
REFUSAL = re.compile(
    r"\b(?:is|are) (?:\w+ ){0,2}(?:refused|rejected)\b|\brefused(?: by name)?:"
    r"|\brefuses?\b|\| refused\b|\b(?:is|are) (?:an? )?(?:\w+ )?errors?\b"
    r"|\braises? (?:an error|a? ?`\w+Error`)"
    r"|\bthe call stops\b|\bstops a stream\b|\bexit code [1-9]"
    r"|\b(?:ends?|stops?|fails?)\b[^.|]{0,60} with an? (?:\w+ )?(?:error|`\w+Error`)"
    r"|\bgets? an? (?:typed )?error\b|\b(?:an|the) error (?:that )?(?:names|says)\b"
    r"|\bends? the (?:stream|epoch|daemon)\b|\braises? (?:at|a typed)\b"
    r"|\bcannot (?:join|be (?:combined|verified|skipped|set))\b"
    r"|\bmust (?:all )?(?:have|be|exist|agree|(?:return|open|leave out) the same|follow each)\b"
)
"""Words of a sentence that promises a refusal."""
RAISES = re.compile(REFUSAL.pattern + r"|^\w+Error: |\bmust be\b")
"""Words of such a sentence in a docstring."""
NO_PROMISE = "no promise"
_FENCES = re.compile(r"<!--.*?-->|^```.*?^```$", re.DOTALL | re.MULTILINE)


class Promise(NamedTuple):
    """A promise of a page.

    Attributes:
        name: of the pipeline that makes the mistake, in its module.
        page: where the promise is, from the top of the repository.
        sentence: a part of it, as the page has it.
        parts: what the error says.
        made: the pipeline.
    """

    name: str
    page: str
    sentence: str
    parts: tuple[str, ...]
    made: Pipeline


def refused(page: str, sentence: str, *parts: str) -> Callable[[Any], Any]:
    """Note the promise that this pipeline is refused with an error that says these parts."""

    def note(define: Any) -> Any:
        made = define if isinstance(define, Pipeline) else pipeline(define)
        made._promise = (page, sentence, parts)
        return made

    return note


def promises() -> dict[str, Promise]:
    """Return every promise by its name, `module:pipeline`."""
    found = {}
    for module in MODULES:
        for name, made in vars(importlib.import_module(module)).items():
            if isinstance(made, Pipeline) and hasattr(made, "_promise"):
                found[f"{module}:{name}"] = Promise(f"{module}:{name}", *made._promise, made)
    return found


def proofs() -> dict[str, dict[str, str]]:
    """Return {page: {part of a sentence: test, promise or NO_PROMISE}} of `refusals.toml`."""
    return tomllib.loads(Path(__file__).with_name("refusals.toml").read_text())


def is_there(proof: str, root: Path) -> bool:
    """Return whether a proof names a test of the repository, a promise, or nothing."""
    file, _, name = proof.partition("::")
    if not name:
        return proof == NO_PROMISE or proof in promises()
    tree = ast.parse((root / file).read_text()) if (root / file).is_file() else ast.Module([], [])
    return name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def text_of(page: Path) -> str:
    """Return a page without its code and comments, in one line."""
    return " ".join(_FENCES.sub(" ", page.read_text()).split())


def sentences(page: Path) -> list[str]:
    """Return the sentences and table rows of a page that promise a refusal, in one line each."""
    plain = _FENCES.sub("\n\n", page.read_text())
    parts = re.split(r"\n\n|\n(?=[-#|] ?)|(?<=[.!?:])\s+(?=[A-Z`\[])", plain)
    found = [" ".join(part.split()) for part in parts]
    return [part for part in found if REFUSAL.search(part) and not part.startswith("#")]


def docstrings(module: ModuleType) -> list[str]:
    """Return the sentences of a module's public docstrings that promise a refusal or an error."""
    found = []
    for name in module.__all__:
        made = getattr(module, name)
        members = vars(made).items() if inspect.isclass(made) else ()
        parts = [one for key, one in members if not key.startswith("_") or key == "__init__"]
        for one in (made, *(p for p in parts if inspect.isfunction(p) or isinstance(p, property))):
            text = inspect.getdoc(one) or ""
            found += re.split(r"(?<=[.:;])\s+(?=[A-Z`])|\n\n|\n\s+(?=\*{0,2}\w+: )", text)
    lines = [" ".join(text.split()) for text in found]
    return [line for line in dict.fromkeys(lines) if RAISES.search(line)]
