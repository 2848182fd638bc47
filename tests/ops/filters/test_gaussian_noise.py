"""gaussian_noise is normal by its moments and quantiles; NumPy's Philox is its bits' reference."""

import numpy as np
from scipy import stats

from stoker.ops import GaussianNoise
from stoker.ops.filters.gaussian_noise import fill_points
from stoker.ops.kernels.random_bytes import plain_blocks


def added(run_op, as_record, sigma, key=0, shape=(300, 400, 3)):
    """Noise that was added to gray."""
    record = as_record(GaussianNoise.record)
    record["seed"] = run_op.draw(GaussianNoise(), key, 9, 9)["seed"]
    record["apply"], record["sigma"] = 1, sigma
    image = np.full(shape, 128, np.uint8)
    return run_op(GaussianNoise(), [("image", image)], record=record).outputs[0].astype(int) - 128


def test_noise_is_normal(run_op, as_record):
    values = added(run_op, as_record, 20.0).ravel()
    count = values.size
    assert abs(values.mean()) < 4 * 20 / count**0.5
    assert abs(values.std() / np.hypot(20, 12**-0.5) - 1) < 4 / (2 * count) ** 0.5
    assert abs(stats.skew(values)) < 4 * (6 / count) ** 0.5
    assert -0.1 < stats.kurtosis(values) < 0.02
    for level in range(-60, 61, 5):
        below = (values <= level).mean()
        assert abs(below - stats.norm.cdf(level + 0.5, scale=20)) < 0.004
    assert 3.3 * 20 < np.abs(values).max() <= 4.1 * 20


def test_values_are_independent(run_op, as_record):
    one, other = added(run_op, as_record, 20.0), added(run_op, as_record, 20.0, key=1)
    limit = 5 / one.size**0.5
    pairs = [(one, other), (one[:, :-1], one[:, 1:]), (one[:-1], one[1:])]
    pairs += [(one[..., 0], one[..., 1]), (one[:, :-5], one[:, 5:]), (abs(one[:-1]), abs(one[1:]))]
    for a, b in pairs:
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 2 * limit


def test_a_byte_has_half_of_the_variance_and_no_mean():
    table = np.zeros(256, np.int64)
    fill_points(3.0, table)
    assert abs((table / 65536).var() * 2 - 9) < 1e-4
    assert abs(int(table.sum())) <= 256
    quantiles = stats.norm.ppf((np.arange(256) + 0.5) / 256)
    assert np.corrcoef(table, quantiles)[0, 1] > 1 - 1e-9


def test_bytes_are_numpys_philox():
    seed = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
    bits = np.random.Philox(
        key=np.array(seed, np.uint64), counter=np.array([0, 0, 0, 0], np.uint64)
    )
    expected = bits.random_raw(400)  # NumPy counts up first: its first block is block 1
    blocks = plain_blocks(np.arange(101, dtype=np.uint64), seed)
    assert (blocks[32:].view("<u8") == expected).all()


def test_sigma_0_changes_nothing(run_op, as_record):
    assert not added(run_op, as_record, 0.0, shape=(9, 31, 3)).any()
