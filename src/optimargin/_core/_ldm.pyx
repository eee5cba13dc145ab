"""The compiled parts of the large margin distribution machine."""

from libc.stdint cimport uint64_t

from optimargin._core._coordinate_descent cimport Step
from optimargin._core._random cimport draw, start
from optimargin._core._rows cimport Rows


cdef class BoxStep(Step):
    """h(p) = -target d on lower <= d <= upper, d = y p: the hinge loss and its relatives."""

    cdef const double[::1] y, lower, upper
    cdef double target

    def __init__(
        self,
        const double[::1] y,
        const double[::1] lower,
        const double[::1] upper,
        double target,
    ):
        self.y = y
        self.lower = lower
        self.upper = upper
        self.target = target

    cdef double solve(self, Py_ssize_t i, double q, double p, double f) noexcept nogil:
        cdef double gradient = self.y[i] * f - self.target, d = self.y[i] * p
        if q > 0.0:
            d = d - gradient / q
        elif gradient < 0.0:
            d = self.upper[i]
        elif gradient > 0.0:
            d = self.lower[i]
        return self.y[i] * min(max(d, self.lower[i]), self.upper[i])

    cdef double slack(self, Py_ssize_t i, double p, double f) noexcept nogil:
        cdef double d = self.y[i] * p
        if d <= self.lower[i]:
            return self.y[i] * f - self.target
        if d >= self.upper[i]:
            return self.target - self.y[i] * f
        return -1.0


cdef class MeanStep(Step):
    """The dual of l1 (g - mean)^2 - l2 g + C max(0, 1 - g), the mean margin held fixed.

    The minimiser over one variable d = y p satisfies d / w in -l'(g) for the margin g it leads to:
    g < 1 and g > 1 each give a linear equation, and where neither holds the kink g = 1 does.
    """

    cdef const double[::1] y, weight
    cdef double C, lambda1, lambda2
    cdef public double mean

    def __init__(
        self, const double[::1] y, const double[::1] weight,
        double C, double lambda1, double lambda2, double mean,
    ):
        self.y = y
        self.weight = weight
        self.C = C
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.mean = mean

    cdef double solve(self, Py_ssize_t i, double q, double p, double f) noexcept nogil:
        return self.y[i] * self._variable(i, q, self.y[i] * p, self.y[i] * f)

    cdef double _variable(
        self, Py_ssize_t i, double q, double d, double margin
    ) noexcept nogil:
        cdef double a = 2.0 * self.lambda1 * self.weight[i]
        cdef double rest = self.weight[i] * self.lambda2 + a * (self.mean - margin + q * d)
        cdef double new = (rest + self.weight[i] * self.C) / (1.0 + a * q)
        if margin + q * (new - d) < 1.0:
            return new
        new = rest / (1.0 + a * q)
        if margin + q * (new - d) > 1.0:
            return new
        return d + (1.0 - margin) / q if q > 0.0 else d


cdef class TwoSamplePass:
    """Variance-reduced stochastic steps with the two-sample gradient of the paper.

    With n samples and f the decision values, sample i and an independent sample j, the step
    follows phi_i times

        n w_i y_i (-2 l1 [(g_i - g_i') - n w_j (g_j - g_j')] + C ([g_i < 1] - [g_i' < 1])),

    primes marking the snapshot: its mean over i and j is the difference of the gradients. As in
    `_svrg`, v = w - z = a u for the z that makes the snapshot's gradient its w minus z, so that a
    step takes O(nnz_i + nnz_j) operations.
    """

    cdef const double[::1] y, weight
    cdef double C, lambda1
    cdef uint64_t random_state

    def __init__(
        self, const double[::1] y, const double[::1] weight, double C, double lambda1, *,
        uint64_t seed,
    ):
        self.y = y
        self.weight = weight
        self.C = C
        self.lambda1 = lambda1
        self.random_state = start(seed)

    def run(
        self,
        Rows rows,  # in, out: the rows of u
        const double[::1] offset_decision,  # in: phi_i' z
        const double[::1] snapshot_margin,  # in
        double[::1] share,  # out: how often the margin of each sample was below one
        double intercept,
        double eta,
        double intercept_eta,
        Py_ssize_t n_steps,
    ):
        """Make `n_steps` steps; return (a, intercept)."""
        cdef Py_ssize_t n = self.y.shape[0], _step, i, j
        cdef double a = 1.0, margin, other, change
        cdef bint below
        with nogil:
            for _step in range(n_steps):
                i = draw(&self.random_state, n)
                j = draw(&self.random_state, n)
                margin = self.y[i] * (offset_decision[i] + a * rows.decision(i) + intercept)
                other = self.y[j] * (offset_decision[j] + a * rows.decision(j) + intercept)
                below = margin < 1.0
                change = self.C * (below - (snapshot_margin[i] < 1.0)) - 2.0 * self.lambda1 * (
                    margin - snapshot_margin[i]
                    - n * self.weight[j] * (other - snapshot_margin[j])
                )
                change *= n * self.weight[i] * self.y[i]
                share[i] += 0.1 * (below - share[i])
                a *= 1.0 - eta
                if change != 0.0:
                    rows.add(i, eta * change / a)
                    intercept += intercept_eta * change
        return a, intercept
