"""channel_shuffle: the record's order, and every order as often."""

from collections import Counter

import numpy as np

from stoker.ops import ChannelShuffle


def test_channels_take_the_records_order(run_op, as_record, noise):
    record = as_record(ChannelShuffle.record)
    record["apply"] = 1
    for order in ((0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)):
        record["order"] = order
        for channels in (1, 2, 3, 4):
            image = noise((20, 30, channels))
            got = run_op(ChannelShuffle(), [("image", image)], record=record).outputs[0]
            for to, source in enumerate(c for c in order if c < channels):
                assert (got[..., to] == image[..., source]).all()


def test_every_order_of_three_channels_is_as_likely(run_op):
    op = ChannelShuffle()
    orders = [run_op.draw(op, k, 9, 9)["order"] for k in range(3000)]
    counts = Counter(tuple(int(c) for c in order if c < 3) for order in orders)
    assert len(counts) == 6
    expected = len(orders) / 6
    assert sum((n - expected) ** 2 / expected for n in counts.values()) < 25
    assert np.ptp([len(set(order.tolist())) for order in orders]) == 0
