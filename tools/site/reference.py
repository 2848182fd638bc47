"""The API reference: a page of Markdown for each public module, from signatures and docstrings.

The modules are imported, so what a page shows is what users get. A module's `__all__` is its public
part; ops by name are left out of `stoker.ops`, because docs/ops.md has them.
"""

import importlib
import inspect
import re
from collections.abc import Container, Iterator
from types import ModuleType
from typing import Any, Final

from griffe import Docstring, DocstringSection, DocstringSectionKind, Parser

from stoker.ops.contract.registry import batch_ops, folds, registered
from stoker.protocol.errors import StokerError

MODULES: Final = {
    "stoker.client": "Loaders and their batches",
    "stoker.client.torch": "Modules of torch that run after the transfer",
    "stoker.client.testing": "Checks for your own tests",
    "stoker.pipeline": "Writing pipelines, and calling them in process",
    "stoker.ops": "Ops of your own",
    "stoker.ops.testing": "Checks of an op of your own",
    "stoker.rng.draws": "Draws of an op of your own",
    "stoker.dataset": "Reading and writing datasets",
    "stoker.protocol.errors": "All errors",
    "stoker.ray": "Daemons on a Ray cluster",
}
"""Public modules, and what each is for."""
TITLES: Final = {
    DocstringSectionKind.parameters: "Arguments",
    DocstringSectionKind.attributes: "Attributes",
    DocstringSectionKind.raises: "Raises",
    DocstringSectionKind.returns: "Returns",
    DocstringSectionKind.yields: "Yields",
}
PAGE: Final = re.compile(r"\bdocs/([\w/-]+)\.md\b")
LONGEST_LINE: Final = 88


def pages() -> dict[str, str]:
    """Return {name of the page: its text}; the page `index.md` lists the others."""
    lines = [f"- [`{name}`]({name}.md): {about}" for name, about in MODULES.items()]
    index = (
        "# API reference\n\nSignatures and docstrings of what users import. "
        "[Ops](../ops.md) has the ops themselves.\n\n"
    )
    return {
        "index.md": index + "\n".join(lines) + "\n",
        **{f"{name}.md": page(name) for name in MODULES},
    }


def page(name: str) -> str:
    """Return the page of a module."""
    module = importlib.import_module(name)
    values = {public: getattr(module, public) for public in public_names(module)}
    shown = {value for value in values.values() if inspect.isclass(value)}
    parts = [f"# {name}\n", text_of(module.__doc__ or "")]
    for public, value in values.items():
        parts += entry(public, value, shown)
    return "\n".join(parts)


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a page of this module describes."""
    if module.__name__ == "stoker.protocol.errors":
        return [name for name, value in vars(module).items() if _is_error(value)]
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    if module.__name__ == "stoker.ops":
        return [name for name in names if name not in _ops()]
    return [*names]


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, StokerError | Warning)


def _ops() -> set[str]:
    """Return the names of ops in `stoker.ops`: of their functions, and of their classes."""
    names = {*registered(), *folds(), *batch_ops()}
    return names | {name.title().replace("_", "") for name in names}


def entry(name: str, value: Any, shown: Container[type], level: int = 2) -> Iterator[str]:
    """Yield the parts of one name: heading, signature, docstring, and the members of a class.

    Args:
        name: as users write it.
        value: what it is.
        shown: classes of the page; what a class has from them is not repeated.
        level: level of the heading.
    """
    yield f"{'#' * level} {name}\n"
    if inspect.ismodule(value):
        yield text_of(value.__doc__ or "")
        return
    if callable(value):
        yield from _signature(name, value)
    yield text_of(inspect.getdoc(value) or "")
    if inspect.isclass(value) and level == 2:
        for member, found in _members(value, shown):
            yield from entry(f"{name}.{member}", found, shown, level + 1)


def _members(cls: type, shown: Container[type]) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class that no shown base describes."""
    seen = set[str]()
    for base in cls.__mro__:
        if not base.__module__.startswith("stoker.") or (base is not cls and base in shown):
            continue
        for name, found in vars(base).items():
            plain = inspect.unwrap(found.__func__) if hasattr(found, "__func__") else found
            if name.startswith("_") or name in seen or not plain.__doc__:
                continue
            if inspect.isfunction(plain) or isinstance(plain, property):
                seen.add(name)
                yield name, plain


def _signature(name: str, value: Any) -> Iterator[str]:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return
    shown = f"class {name}" if inspect.isclass(value) else name
    parts = [*_arguments(signature)]
    after = signature.return_annotation
    returned = "" if after in (signature.empty, None, "None") else f" -> {_annotation(after)}"
    line = f"{shown}({', '.join(parts)}){returned}"
    if len(line) > LONGEST_LINE:
        lines = "".join(f"    {part},\n" for part in parts)
        line = f"{shown}(\n{lines}){returned}"
    yield f"```python\n{line}\n```\n"


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    """Yield the arguments as a call's author reads them: without `self`, types by short names."""
    starred = False
    arguments = [*signature.parameters.values()]
    for number, one in enumerate(arguments):
        if number == 0 and one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        starred = starred or one.kind is one.VAR_POSITIONAL
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        typed = "" if one.annotation is one.empty else f": {_annotation(one.annotation)}"
        default = "" if one.default is one.empty else f"{' = ' if typed else '='}{one.default!r}"
        yield f"{stars}{one.name}{typed}{default}"


def _annotation(given: Any) -> str:
    text = given if isinstance(given, str) else inspect.formatannotation(given)
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z_])", "", text.replace("'", ""))
    return re.sub(r"Annotated\[((?:[^\[\]]|\[.*?\])+?), Meta\([^()]*\)\]", r"\1", text)


def text_of(docstring: str) -> str:
    """Return the Markdown of a docstring in Google's style."""
    docstring = PAGE.sub(r"[\1](../\1.md)", inspect.cleandoc(docstring))
    sections = Docstring(docstring).parse(Parser.google, warnings=False)
    return "\n".join(part for section in sections for part in _section(section))


def _section(section: DocstringSection) -> Iterator[str]:
    if section.kind is DocstringSectionKind.text:
        yield f"{section.value}\n"
        return
    if section.kind is DocstringSectionKind.admonition:
        yield f"**{section.title}** {section.value.description}\n"
        return
    yield f"**{TITLES[section.kind]}**\n"
    for one in section.value:
        named = getattr(one, "name", "") or str(getattr(one, "annotation", "") or "")
        about = " ".join(one.description.split())
        yield f"- `{named}`: {about}" if named else f"- {about}"
    yield ""
