"""`stoker explain` says what a pipeline becomes: fields, graph, plan, memory, program."""

from stoker.pipeline.compiled.listing import listing
from stoker.pipeline.compiled.program import write_program
from stoker.server.commands.explain_command import explain
from stoker.server.rows.subject import open_subject


def test_every_part_is_there(photos, run):
    out = run(explain, "command_pipelines:train", photos)
    with open_subject("command_pipelines:train", photos) as subject:
        plan = subject.plan
    for part in (
        "  image: image uint8[<=115x<=115x3], decoded (jpeg) in Python into memory of 39675 bytes,"
        " of it only what random_resized_crop will read",
        "  label: label int64[], mapped as it is stored",
        "  Python stages: decoding of image, mask, so rows are computed one by one",
        "= draw op 'horizontal_flip', version 1, params {'p': 0.5}, stream 'horizontal_flip'",
        "= what the block that ran gives",
        f"pipeline {plan.pipeline_id}",
        f"scratch arena: {plan.arena_bytes} bytes, made once",
        "in the row of output 'mask'",
        "command_pipelines.py:13: decided for each row, 2 steps or 2 steps; both are compiled",
    ):
        assert part in out, out
    assert "written straight into the slot: v" in out
    shown = out[out.index("\nProgram\n") :].splitlines()[2:]
    assert [line.strip() for line in shown if line] == [
        line.strip() for line in listing(write_program(plan)).splitlines()
    ]


def test_calls_of_python_are_told(photos, run):
    out = run(explain, "command_pipelines:called", photos)
    assert "image, so rows are computed one by one; a call of command_pipelines:doubled, out" in out


def test_what_workers_join_is_told(photos, run):
    out = run(explain, "command_pipelines:shortened", photos)
    told = out[out.index("\nJoined by workers\n") :].splitlines()[2:4]
    assert told == ["  resize_short and center_crop: only what is kept is computed", ""]
    assert "Joined by workers\n  nothing\n" in run(explain, "command_pipelines:labels", photos)


def test_items_and_schedules_are_told(boxed, photos, run):
    out = run(explain, "command_pipelines:boxed", boxed)
    assert "  boxes: boxes[<=3: xyxy, label int64], mapped as it is stored" in out
    assert "= count v" in out
    out = run(explain, "command_pipelines:scheduled", photos)
    assert "stream 'brightness', parameters of a schedule (" in out


def test_what_is_not_there_is_said(photos, run):
    out = run(explain, "command_pipelines:labels", photos)
    assert "  not read: image, mask" in out
    assert "  Python stages: none" in out
    assert "  none: every step runs for every row" in out
    assert "  output 'label' = 0" in out
