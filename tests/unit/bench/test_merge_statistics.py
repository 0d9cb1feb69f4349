"""Statistics over machines: values of other programs and books,
and how often intervals and tests are right.
"""

import math
import random
from statistics import fmean, stdev

import pytest
from scipy import stats

from ftbench.stats.outliers import critical, outliers
from ftbench.stats.random_effects import Mean, differ, random_effects

CASES = {
    "apart": ([0.61, 0.28, 0.45, 0.91, 0.50], [0.05, 0.10, 0.08, 0.12, 0.03]),
    "alike": ([0.50, 0.52, 0.49, 0.51], [0.05, 0.06, 0.04, 0.08]),
    "two": ([0.10, 0.60], [0.05, 0.07]),
    "uneven": ([-0.4, 0.1, 0.3, 0.35, 0.2, 1.1], [0.3, 0.02, 0.05, 0.4, 0.01, 0.2]),
}
# statsmodels 0.15.0, which has no wheel for free-threaded Python 3.13, gave this, with CASES as
# above:
#
#   from statsmodels.stats.meta_analysis import combine_effects
#   for name, (effects, errors) in CASES.items():
#       variances = numpy.array(errors) ** 2
#       found = combine_effects(numpy.array(effects), variances, method_re="pm", use_t=True, atol=1e-12, maxiter=500)
#       print(name, found.tau2, found.mean_effect_re, found.sd_eff_w_re_hksj, found.scale_hksj_re)
STATSMODELS = {
    "apart": (0.04255227809369263, 0.5433640142136354, 0.09890549576892446, 1.0),
    "alike": (0, 0.5005949547834364, 0.006566231075099686, 0.06290655243534836),
    "two": (0.12129999999999455, 0.3475999999999999, 0.24998847973456695, 1.0),
    "uneven": (0.18002108538157266, 0.28296181588850045, 0.18978832259104686, 1.0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_mean_is_that_of_statsmodels(name):
    found = random_effects(*CASES[name])
    tau2, effect, error, scale = STATSMODELS[name]
    # Where the effects are closer than their errors explain, we keep the errors' own variance.
    expected = tau2, effect, error / math.sqrt(min(1, scale))
    assert (found.tau2, found.effect, found.error) == pytest.approx(expected, rel=1e-9)
    low, high = stats.t.interval(0.95, len(CASES[name][0]) - 1, found.effect, found.error)
    assert found.interval() == pytest.approx((low, high))
    assert (
        found.interval(prediction=True)[0] < low
        and found.interval(prediction=True)[1] > high
        or tau2 == 0
    )


def test_the_order_does_not_matter():
    both = list(zip(*CASES["uneven"], strict=True))
    expected = random_effects(*CASES["uneven"])
    for seed in range(20):
        random.Random(seed).shuffle(both)
        assert random_effects(*zip(*both, strict=True)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "tau, least, most", [(0.0, 0.95, 1.0), (0.05, 0.92, 1.0), (0.3, 0.92, 0.97)]
)
@pytest.mark.parametrize("machines", [2, 4, 10])
def test_the_interval_holds_the_mean_in_95_of_100_cases(machines, tau, least, most):
    rng, right, right_of_new, cases = random.Random(f"{machines} {tau}"), 0, 0, 1000
    for _ in range(cases):
        errors = [rng.uniform(0.03, 0.08) for _ in range(machines)]
        found = random_effects([rng.gauss(0.4, math.hypot(tau, error)) for error in errors], errors)
        low, high = found.interval()
        right += low <= 0.4 <= high
        low, high = found.interval(prediction=True)
        right_of_new += low <= rng.gauss(0.4, math.hypot(tau, rng.uniform(0.03, 0.08))) <= high
    # the variance of two is too often seen as 0, for which the interval is wide
    most = 1.0 if machines == 2 else most
    assert least <= right / cases <= most
    # Where the machines hardly differ, a further one is expected in too wide an interval.
    assert 0.935 <= right_of_new / cases <= (0.97 if tau == 0.3 and machines > 2 else 1.0)


def test_the_prediction_for_equal_errors_is_students():
    values = [0.1, 0.35, 0.2, 0.5, 0.05]
    low, high = random_effects(values, [0.02] * 5).interval(prediction=True)
    far = stats.t.ppf(0.975, 4) * stdev(values) * math.sqrt(1 + 1 / 5)
    assert (low, high) == pytest.approx((fmean(values) - far, fmean(values) + far), rel=1e-6)


def test_welchs_test_is_scipys():
    rng = random.Random(3)
    samples = [
        [rng.gauss(mean, spread) for _ in range(n)]
        for mean, spread, n in ((0, 1, 5), (1, 2, 9), (0.5, 0.3, 4))
    ]
    for some in (samples, samples[:2]):
        means = [Mean(fmean(of), stdev(of) / math.sqrt(len(of)), len(of) - 1) for of in some]
        assert differ(means) == pytest.approx(stats.f_oneway(*some, equal_var=False).pvalue)


# Rosner's data and result, from the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.17.3.
ROSNER = """
    -0.25 0.68 0.94 1.15 1.20 1.26 1.26 1.34 1.38 1.43 1.49 1.49 1.55 1.56 1.58 1.65 1.69 1.70 1.76 1.77 1.81 1.91 1.94
    1.96 1.99 2.06 2.09 2.10 2.14 2.15 2.23 2.24 2.26 2.35 2.37 2.40 2.47 2.54 2.62 2.64 2.90 2.92 2.92 2.93 3.21 3.26
    3.30 3.59 3.68 4.30 4.64 5.34 5.42 6.01
"""


def test_rosners_outliers():
    values = [float(value) for value in ROSNER.split()]
    assert [values[at] for at in outliers(values, 0.05)] == [6.01, 5.42, 5.34]
    assert [critical(n, 0.05) for n in (54, 53, 52)] == pytest.approx(
        [3.158, 3.151, 3.143], abs=1e-3
    )


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("machines", [4, 8, 40])
def test_one_false_outlier_in_20_cases(machines):
    rng, cases = random.Random(machines), 2000
    found = sum(
        bool(outliers([rng.gauss(0, 0.03) for _ in range(machines)], 0.05)) for _ in range(cases)
    )
    assert 0.02 < found / cases < 0.07


def test_two_slow_machines_do_not_hide_each_other():
    values = [0.01, -0.02, 0.0, 0.02, -0.01, -0.25, -0.26, 0.01]
    assert outliers(values, 0.05) == [6, 5]


def test_what_cannot_be_an_outlier():
    assert outliers([], 0.05) == outliers([0.0], 0.05) == outliers([0.0, 0.0, 9.0], 0.05) == []
    assert outliers([1.0] * 10, 0.05) == []
