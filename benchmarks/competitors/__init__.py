"""One file per competitor: how each library is asked to solve the same problem.

A linear competitor minimises ``|w|^2 / 2 + C1 / n * sum max(0, 1 - y x'w)^2`` without an
intercept: `fit(X, y, C1, tol)` returns w. `TOLERANCES` lists its stopping tolerances from loose to
tight; a benchmark takes the loosest that reaches the accuracy it asks for.
"""

from competitors import liblinear_official, linear_svc, optimargin_linear

LINEAR = {
    "optimargin": optimargin_linear.fit,
    "LinearSVC dual": linear_svc.fit_dual,
    "LinearSVC primal": linear_svc.fit_primal,
    "liblinear-official": liblinear_official.fit,
}
TOLERANCES = tuple(10.0**-k for k in range(1, 9))
