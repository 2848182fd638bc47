"""What workers need for a pipeline counts against `memory.limit` when a stream opens."""

from pathlib import Path

import pytest

from stoker.protocol.errors import ResourceError

pytestmark = pytest.mark.slow


def test_a_pipeline_that_needs_too_much_is_refused_and_its_op_is_named(serve, loader):
    daemon = serve()
    source = Path(__file__).with_name("robust_pipelines.py")
    line = (
        source.read_text()
        .splitlines()
        .index("    large = ops.resize(sample.image, size=(20000, 20000))")
    )
    with pytest.raises(ResourceError) as caught:
        loader(daemon, "huge")
    message = caught.value.message
    assert "for values between its steps" in message
    assert f"resize ({source}:{line + 1}) needs the most" in message
    assert caught.value.details["needed_bytes"] >= 2 * 3 * 20000**2
    with loader(daemon) as fine:
        assert [batch.step for batch in fine] == [0, 1]
