"""Each command checks its flags before it opens, reads or makes any file, and before any work."""

import pytest
from commands import call

NOWHERE = "/nowhere/data"
PACK = ("pack", NOWHERE, "/nowhere/out")
STREAM = ("json:loads", NOWHERE)
BAD = [
    ((*PACK, "--orientation=foo"), "--orientation: expected apply or keep, got 'foo'"),
    ((*PACK, "--encoding=foo"), "--encoding: expected planes, got 'foo'"),
    ((*PACK, "--encoding=planes", "--raw"), "it excludes --raw"),
    ((*PACK, "--kind=foo"), "--kind: expected one of auto, "),
    ((*PACK, "--masks=foo"), "--masks: expected semantic or instance, got 'foo'"),
    ((*PACK, "--workers=0"), "--workers: expected at least 1 worker, got 0"),
    ((*PACK, "--resize=0"), "--resize: expected a side of 1 to "),
    ((*PACK, "--quality=101"), "--quality: expected 1 to 100, got 101"),
    ((*PACK, "--quality=90", "--raw"), "--quality and --raw exclude each other"),
    ((*PACK, "--field=x=foo"), "--field x=foo: expected a kind among image, mask, "),
    ((*PACK, "--field=x"), "--field 'x': expected NAME=KIND"),
    ((*PACK, "--append", "--overwrite"), "--append adds to a dataset, so it excludes --overwrite"),
    ((*PACK, "--classes=/nowhere/classes", "--orientation=foo"), "--orientation: expected"),
    ((*PACK, "--classes=/a", "--classes-of=/b"), "--classes and --classes-of exclude each other"),
    (("index", NOWHERE, "--kind=foo"), "--kind: expected one of auto, "),
    (("index", NOWHERE, "--workers=0"), "--workers: expected at least 1 worker, got 0"),
    (("index", NOWHERE, "--field=x=foo"), "--field x=foo: expected a kind among "),
    (("verify", NOWHERE, "--workers=0"), "--workers: expected at least 1 worker, got 0"),
    (("verify", NOWHERE, "--list=/nowhere/bad.jsonl"), "--list /nowhere/bad.jsonl: there is no fo"),
    (("ls", NOWHERE, "--samples=-1"), "'--samples'"),
    (("split", NOWHERE, "1=0.5", "b=rest"), "'1': expected a name of letters"),
    (("split", NOWHERE, "a=0.5"), "the parts leave 0.5 of 1.0 samples in no split"),
    (("split", NOWHERE, "a=0.5", "b=7"), "expected fractions or counts, got both"),
    (("split", NOWHERE, "a=/nowhere/ids", "b"), "'b': expected NAME=PART"),
    (("split", NOWHERE, "a=0.5", "--by=label"), "--by makes all splits"),
    (("add-column", NOWHERE, "x", "/nowhere/x.csv", "--kind=foo"), "--kind foo: expected a kind"),
    (("add-column", NOWHERE, "x", "/nowhere/x.csv", "--kind=boxes"), "--kind boxes: expected a k"),
    (("add-column", NOWHERE, "x", "/nowhere/x.txt"), "expected a .csv, .tsv, .parquet"),
    (("add-column", NOWHERE, "a b", "/nowhere/x.csv"), "'a b'"),
    (("explain", *STREAM, "--bucket=x"), "--bucket 'x': expected WIDTHxHEIGHT"),
    (("preview", *STREAM, "--out=/tmp/a.png", "--bucket=x"), "--bucket 'x': expected WIDTHxHEIGHT"),
    (("preview", *STREAM, "--out=/tmp/a.png", "--ids=x"), "--ids 'x': expected numbers"),
    (("preview", *STREAM, "--out=/nowhere/a.png"), "--out /nowhere/a.png: there is no folder"),
    (("preview", *STREAM, "--out=/tmp/a.txt"), "--out /tmp/a.txt: expected a file name with one"),
    (("replay", *STREAM, "--id=0", "--epoch=0", "--bucket=x"), "--bucket 'x': expected"),
    (("replay", *STREAM, "--id=0", "--epoch=0", "--out=/dev/null"), "/dev/null is a file"),
    (("compare", NOWHERE, "--pipeline=json:loads", "--against=json:"), "expected module:function"),
    (("buckets", NOWHERE, "--batch-size=8", "--size=x"), "--size x: expected WIDTHxHEIGHT"),
    (("buckets", NOWHERE, "--batch-size=8", "--plot=/nowhere/a.png"), "--plot /nowhere/a.png"),
    (("bench", *STREAM, "--seconds=nan"), "'--seconds': expected a number above 0, got nan"),
    (("bench", *STREAM, "--seconds=0"), "'--seconds': expected a number above 0, got 0"),
    (("bench", *STREAM, "--target=-1"), "'--target': expected a number above 0, got -1"),
    (("bench", *STREAM, "--workers=0"), "--workers 0: expected a number from 1"),
    (("bench", *STREAM, "--plot=/nowhere/a.png"), "--plot /nowhere/a.png: there is no folder"),
    (("compare", NOWHERE, "--pipeline=json:loads", "--against=json:loads", "--seconds=inf"),
     "'--seconds': expected a number above 0, got inf"),
    (("compare", NOWHERE, "--pipeline=json:loads", "--against=json"), "--against 'json': expected"),
    (("warm", "--all-ops", "--bucket=8x8"), "--bucket is for --pipeline"),
    (("warm", "--all-ops", "--pipeline=json:loads"), "--pipeline and --dataset belong together"),
    (("warm", "--all-ops", "--pipeline=json:loads", f"--dataset={NOWHERE}", "--bucket=x"),
     "--bucket 'x': expected WIDTHxHEIGHT"),
    (("audit", "json:loads", "--batches=0"), "batches"),
    (("audit", "json:loads", "--timeout=0"), "timeout"),
    (("audit", "json:loads", "--question=foo"), "foo"),
    (("serve", f"--dataset=x={NOWHERE}", "--ready-fd=999"), "--ready-fd 999: Bad file descriptor"),
    (("serve", f"--dataset=x={NOWHERE}", "--workers=0"), "workers"),
]  # fmt: skip
"""Command, and what its error says; the dataset and the pipeline do not exist either."""


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(one) for one, _ in BAD])
def test_a_bad_flag_is_named_before_the_files(arguments, message):
    code, printed, errors = call(*arguments, NO_COLOR="1", COLUMNS="300", TERM="dumb")
    assert (code in (2, 78), printed) == (True, ""), errors
    assert message in errors
    assert "Traceback" not in errors
