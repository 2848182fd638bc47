"""Quarantine files: a line a sample, once; streams go on if the disk fails."""

import json
import logging

from stoker.server.daemon.quarantine import QuarantineFiles, ids_of
from stoker.server.work.work_records import BadSample

DATASET = "content:" + "ab" * 16


def sample(number: int) -> BadSample:
    return BadSample(number, "image", f"{number}.jpg", "it is damaged")


def write(folder, *calls):
    files = QuarantineFiles(folder)
    for dataset, numbers in calls:
        files.add(dataset, [sample(number) for number in numbers])
    files.close()


def test_a_line_for_each_sample_over_restarts(tmp_path):
    folder = tmp_path / "deep" / "bad"
    write(folder, (DATASET, [5, 2]), (DATASET, [2, 8]), ("content:" + "cd" * 16, [2]))
    write(folder, (DATASET, [8, 1]))
    text = (folder / f"{'ab' * 16}.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["id"] for line in lines] == [5, 2, 8, 1]
    expected = {"id": 5, "field": "image", "source": "5.jpg", "reason": "it is damaged"}
    assert lines[0] == expected
    assert list(ids_of(folder / f"{'cd' * 16}.jsonl")) == [2]


def test_lines_that_are_none_are_passed_over(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": 4}\nnonsense\n[1]\n{"id": "7"}\n\n{"id": 9}')
    assert list(ids_of(tmp_path / "x.jsonl")) == [4, 9]


def test_what_cannot_be_written_is_logged(tmp_path, caplog):
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING, "stoker"):
        write(tmp_path / "file", (DATASET, [1]), (DATASET, [2]))
    said = [record for record in caplog.records if record.message == "quarantine_not_written"]
    assert len(said) == 1, "it is said once"
    assert "file" in said[0].facts["file"]


def test_lines_are_whole_after_a_torn_one(tmp_path):
    path = tmp_path / f"{'ab' * 16}.jsonl"
    path.write_text('{"id": 4}\n{"id": 5, "fie')
    write(tmp_path, (DATASET, [5, 6]))
    assert list(ids_of(path)) == [4, 5, 6]
