"""Gamma, beta and Dirichlet variates: SciPy's laws, and the same bits plain and compiled."""

import numpy as np
import pytest
from scipy import stats

from stoker.jit import compiled, kernel
from stoker.ops.kernels.gammas import LARGEST, SMALLEST, beta, dirichlet, gamma, log_gamma_variate
from stoker.rng.streams import machine_key, make_key, stream_key

KEY = make_key(11, stream_key("gammas"), 3, 1)
COUNT = 20_000


@kernel
def fill_gammas(key, alpha, out):
    """A variate out of each draw."""
    for i in range(len(out)):
        out[i] = gamma(key, i, alpha)


@kernel
def fill_logs(key, alpha, out):
    """The logarithm of each."""
    for i in range(len(out)):
        out[i] = log_gamma_variate(key, i, alpha)


@kernel
def fill_betas(key, a, b, out):
    """A variate out of every two draws."""
    for i in range(len(out)):
        out[i] = beta(key, 2 * i, a, b)


@kernel
def fill_weights(key, alpha, out):
    """A row of weights out of as many draws."""
    for i in range(len(out)):
        dirichlet(key, i * out.shape[1], alpha, out[i])


def filled(fill, *arguments, shape=COUNT):
    out = np.zeros(shape)
    compiled(fill)(machine_key(KEY), *arguments, out)
    return out


@pytest.mark.parametrize("alpha", [0.2, 0.999, 1.0, 1.5, 7.0, 900.0])
def test_gammas_are_gamma(alpha):
    values = filled(fill_gammas, alpha)
    assert stats.kstest(values, stats.gamma(alpha).cdf).pvalue > 1e-3
    assert abs(values.mean() / alpha - 1) < 5 / (COUNT * alpha) ** 0.5


def test_logarithms_of_a_small_shape_have_its_law():
    """Most of its variates do not fit float64: -alpha * log is exponential in the limit."""
    values = filled(fill_logs, 0.001)
    assert np.isfinite(values).all()
    assert stats.kstest(-0.001 * values, stats.expon.cdf).pvalue > 1e-3
    assert (filled(fill_gammas, 0.001) == 0).mean() > 0.4


@pytest.mark.parametrize(("a", "b"), [(0.2, 0.2), (1.0, 1.0), (1.0, 3.0), (2.5, 0.4), (32.0, 32.0)])
def test_betas_are_beta(a, b):
    values = filled(fill_betas, a, b)
    assert stats.kstest(values, stats.beta(a, b).cdf).pvalue > 1e-3


@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0])
def test_weights_are_dirichlet(alpha):
    """Each weight is a beta variate, and so is the share that one has of any two."""
    weights = filled(fill_weights, alpha, shape=(COUNT, 3))
    assert np.abs(weights.sum(1) - 1).max() < 1e-15
    for i in range(3):
        law = stats.beta(alpha, 2 * alpha).cdf
        assert stats.kstest(weights[:, i], law).pvalue > 1e-3
        pair = weights[:, i] + weights[:, i - 1]
        share = weights[:, i] / np.where(pair == 0, 1, pair)
        assert stats.kstest(share, stats.beta(alpha, alpha).cdf).pvalue > 1e-3


def test_the_ends_of_shape_are_numbers():
    for alpha in (SMALLEST, LARGEST):
        values = filled(fill_betas, alpha, alpha, shape=500)
        assert ((values >= 0) & (values <= 1)).all()
        assert 0.3 < values.mean() < 0.7
        weights = filled(fill_weights, alpha, shape=(200, 4))
        assert np.abs(weights.sum(1) - 1).max() < 1e-15
    least = filled(fill_betas, SMALLEST, SMALLEST, shape=500)
    assert ((least < 1e-100) | (least == 1)).all(), "all or nothing"


@pytest.mark.parametrize("alpha", [SMALLEST, 0.2, 1.0, 5.0, LARGEST])
def test_compiled_gives_the_same_bits(alpha):
    for fill, shape in ((fill_gammas, 60), (fill_logs, 60), (fill_weights, (20, 3))):
        plain = np.zeros(shape)
        fill(KEY, alpha, plain)
        assert plain.tobytes() == filled(fill, alpha, shape=shape).tobytes()
    plain = np.zeros(60)
    fill_betas(KEY, alpha, 0.5, plain)
    assert plain.tobytes() == filled(fill_betas, alpha, 0.5, shape=60).tobytes()


def test_a_variate_reads_its_own_draws_alone():
    """A draw does not depend on the reading of other draws."""
    first, second = log_gamma_variate(KEY, 4, 0.7), log_gamma_variate(KEY, 5, 0.7)
    assert first != second
    weights = np.zeros(2)
    dirichlet(KEY, 4, 0.7, weights)
    share = 1 / (1 + np.exp(second - first))
    assert abs(weights[0] - share) < 1e-12
    assert abs(beta(KEY, 4, 0.7, 0.7) - share) < 1e-12
