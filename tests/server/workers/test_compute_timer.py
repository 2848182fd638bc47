"""Work is measured without what it waited for a processor."""

import pytest

from stoker.server.workers import compute_timer
from stoker.server.workers.compute_timer import ComputeTimer


@pytest.fixture
def clock(monkeypatch):
    times = iter([10.0, 13.0])
    monkeypatch.setattr(compute_timer.time, "perf_counter", lambda: next(times))


@pytest.fixture
def account(tmp_path):
    return tmp_path / "schedstat"


def test_waiting_for_a_processor_does_not_count(clock, account):
    account.write_text("900 1000000000 5\n")
    watch = ComputeTimer(str(account))
    began = watch.read()
    account.write_text("950 3500000000 6\n")
    assert watch.read() - began == pytest.approx(0.5)
    watch.close()


@pytest.mark.parametrize("text", ["", None])
def test_all_time_counts_where_there_is_no_account(clock, account, text):
    if text is not None:
        account.write_text(text)
    watch = ComputeTimer(str(account))
    assert -watch.read() + watch.read() == 3.0
    watch.close()


def test_the_kernels_account_of_this_process_only_grows():
    watch = ComputeTimer()
    first = watch._waited_s()
    assert 0.0 <= first <= watch._waited_s()
    watch.close()
    assert watch._waited_s() == 0.0
    watch.close()
