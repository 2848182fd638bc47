"""Ranks of one job whose streams differ get an error that names the fields, and never hang."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from keyed import OPTIONS, keyed_daemon
from warm import Script

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]

RANK = """
import datetime, json, sys
import torch.distributed as dist
from stoker.client import Loader
from stoker.client.ranks import rank_streams
from stoker.protocol.errors import StokerError
path, address, rank, cases = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2,
                        timeout=datetime.timedelta(seconds=60))
for wait_s, options, alone in cases:
    rank_streams.WAIT_S = wait_s
    said, loader = "none", None
    try:
        if alone == "first":
            extra = Loader(address, **options[rank]) if rank == 0 else None
        if options[rank] is not None:
            loader = Loader(address, **options[rank])
        said = "opened"
        if alone == "late":
            dist.barrier()
            next(iter(loader))
        if loader is not None:
            said = loader.spec.stream_id
    except StokerError as error:
        said = error.message
    print(json.dumps(said), flush=True)
    dist.barrier()
    if loader is not None:
        loader.close()
dist.destroy_process_group()
"""
LONG_S = 60.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with keyed_daemon(tmp_path_factory.mktemp("ranks")) as served:
        yield served.ipc


@pytest.fixture(scope="module")
def said(address: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The output of each of two ranks, by case."""
    cases = {
        "same": (LONG_S, [{}, {}], ""),
        "seed": (LONG_S, [{"seed": 100}, {"seed": 101}], ""),
        "batch_size": (LONG_S, [{}, {"batch_size": 5}], ""),
        "shuffle": (LONG_S, [{"shuffle": False}, {}], ""),
        "subset": (LONG_S, [{}, {"subset": [1, 2, 3, 4, 5, 6, 7, 8, 9]}], ""),
        "validation of rank 0": (0.1, [{}, {}], "first"),
        "chosen ranks": (
            LONG_S,
            [{"seed": n, "rank": 0, "world_size": 1} for n in range(2)],
            "",
        ),
        "not waited for": (0.0, [{"seed": 7}, {"seed": 8}], "late"),
        "one rank alone": (0.1, [{}, None], ""),
        "same after that": (1.0, [{}, {}], ""),
    }
    given = [
        (wait_s, [options and {**OPTIONS, **options} for options in both], alone)
        for wait_s, both, alone in cases.values()
    ]
    for _, both, _ in given:
        for number, options in enumerate(both):
            both[number] = dict(OPTIONS) if options == {} else options
    rendezvous = tmp_path_factory.mktemp("rendezvous") / "file"
    ranks = [
        Script(
            *("-c", RANK, rendezvous, address, rank, json.dumps(given)),
            stdout=subprocess.PIPE,
            imports=["torch.distributed"],
        )
        for rank in range(2)
    ]
    lines = [rank.communicate(timeout=120)[0].splitlines() for rank in ranks]
    assert [len(part) for part in lines] == [len(cases)] * 2, lines
    both = zip(*lines, strict=True)
    return {name: [json.loads(text) for text in one] for name, one in zip(cases, both, strict=True)}


@pytest.mark.parametrize(
    ("case", "fields"),
    [
        ("seed", ["seed: rank 0 has 100, rank 1 has 101"]),
        ("batch_size", ["batch_size: rank 0 has 8, rank 1 has 10"]),
        ("shuffle", ["order: rank 0 has {", "'shuffle': False", "'shuffle': True"]),
        ("subset", ["exclude: rank 0 has None, rank 1 has '"]),
    ],
)
def test_both_ranks_get_an_error_with_the_fields(said, case: str, fields: list[str]) -> None:
    first, second = said[case]
    assert second.startswith("rank 1 opened another stream than rank 0 (<string>:")
    assert first.startswith("rank 0 opened another stream than rank 1")
    for field in fields:
        assert field in second
    assert "pass rank=0, world_size=1" in first


@pytest.mark.parametrize("case", ["same", "same after that"])
def test_ranks_that_agree_open(said, case: str) -> None:
    first, second = said[case]
    assert first == second
    assert len(first) == 32


def test_a_rank_that_opens_alone_goes_on(said) -> None:
    alone, nothing = said["one rank alone"]
    assert len(alone) == 32
    assert nothing == "opened"


def test_a_loader_that_one_rank_made_in_a_line_of_its_own_is_compared_with_none(said) -> None:
    first, second = said["validation of rank 0"]
    assert first == second
    assert len(first) == 32


def test_ranks_that_were_chosen_are_not_compared(said) -> None:
    first, second = said["chosen ranks"]
    assert first != second
    assert len(first) == len(second) == 32


def test_ranks_that_did_not_wait_are_compared_when_the_epoch_begins(said) -> None:
    assert all("seed: rank" in text for text in said["not waited for"])
