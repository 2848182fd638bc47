"""`stoker explain`: what a pipeline becomes over a dataset; nothing is compiled, no pixel is read.

The graph in its normal form, the fields and how each is read, the steps with the state and place of
every value, the memory plan, the conditions, the steps that workers join, and the program as it is
without that.
"""

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from stoker.pipeline.compiled.listing import listing
from stoker.pipeline.compiled.program import write_program
from stoker.pipeline.planning.decision import Decision
from stoker.pipeline.planning.decoded_boxes import windowed
from stoker.pipeline.planning.planner import shorten
from stoker.pipeline.planning.scaled_fields import only_sizes, stored_field
from stoker.pipeline.showing.explain_plan import explain as plan_text
from stoker.pipeline.showing.explain_plan import graph_text, joined
from stoker.server.commands.subject_flags import BucketFlag, PythonPathFlag
from stoker.server.rows.scratch import ENCODED
from stoker.server.rows.subject import Subject, open_subject


def explain(
    pipeline: Annotated[str, typer.Argument(help="module:attribute of the pipeline.")],
    dataset: Annotated[str, typer.Argument(help="Folder of the dataset.")],
    bucket: BucketFlag = None,
    python_path: PythonPathFlag = None,
) -> None:
    """Show a pipeline's graph, states, memory plan and program.

    Example: `stoker explain pipelines:train packed`.
    """
    with open_subject(pipeline, dataset, python_path or (), bucket) as subject:
        console = Console(soft_wrap=True)
        _section(console, "Fields", "\n".join(field_lines(subject)))
        _section(console, "Graph", graph_text(subject.plan.graph))
        _section(console, "Plan", plan_text(subject.plan))
        _section(console, "Joined by workers", "\n".join(joined(shorten(subject.plan))))
        _section(console, "Program", listing(write_program(subject.plan)))


def field_lines(subject: Subject) -> list[str]:
    """Say how each field that the pipeline reads gets into memory, and what that means for speed.

    A field that a Python library decodes makes a worker go row by row: decode, then one compiled
    call; with none, a whole chunk could be one call.
    """
    fields = {field.name: field for field in subject.dataset.schema.fields}
    lines, boxes = [], windowed(subject.plan)
    for name, state in zip(subject.plan.fields, subject.plan.inputs, strict=True):
        field = fields[stored_field(name)]
        encoding = field.encoding
        how = "mapped as it is stored"
        if encoding in ENCODED:
            how = f"decoded ({encoding}) in Python into memory of {state.bound_bytes} bytes"
        if name in boxes and field.has_parts:
            how += f", of it only what {_ops(boxes[name])} will read"
        if name in only_sizes(subject.plan.fields):
            how = "of it only height and width are read"
        lines.append(f"{name}: {state}, {how}")
    unread = [name for name in fields if name not in subject.plan.fields]
    if unread:
        lines.append(f"not read: {', '.join(unread)}")
    return [*lines, f"Python stages: {'; '.join(stages(subject)) or 'none'}"]


def _ops(decisions: tuple[Decision, ...]) -> str:
    return " and ".join(dict.fromkeys(decision.op.name for decision in decisions))


def stages(subject: Subject) -> list[str]:
    """Name what runs in Python for every row: decoding, and functions of the user's."""
    fields = {field.name: field for field in subject.dataset.schema.fields}
    sized = only_sizes(subject.plan.fields)
    read = [name for name in subject.plan.fields if name not in sized]
    decoded = [name for name in read if fields[stored_field(name)].encoding in ENCODED]
    called = [d.op for d in subject.plan.decisions if d.op.calls_python]
    found = [f"decoding of {', '.join(decoded)}, so rows are computed one by one"] * bool(decoded)
    return found + [
        f"a call of {op.params_data()['function']}, out of compiled code" for op in called
    ]


def _section(console: Console, title: str, text: str) -> None:
    console.print(Text(title, "bold"))
    for line in text.rstrip("\n").split("\n"):
        console.print(Text(f"  {line}"))
    console.print()
