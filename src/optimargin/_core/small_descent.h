/* Coordinate descent on the dual of one band-loss problem, over a Gram matrix that fits into the
   cache, and its duality gap. */
#ifndef OPTIMARGIN_SMALL_DESCENT_H
#define OPTIMARGIN_SMALL_DESCENT_H

#include "band_loss.h"
#include "vector_clones.h"
#include <stddef.h>

/* Visit every variable once, in this order. Returns the intercept, which moves as if it were the
   coefficient of a feature of constant value sqrt(intercept_scale). */
OPTIMARGIN_VECTOR_CLONES static double optimargin_descent_epoch(
    const float *restrict K, ptrdiff_t n, const ptrdiff_t *restrict order, const double *target,
    const double *orientation, const double *restrict ridge1, const double *restrict ridge2,
    double D, double *restrict pull, double *restrict decision, double intercept,
    double intercept_scale)
{
    for (ptrdiff_t k = 0; k < n; k++) {
        const ptrdiff_t i = order[k];
        const float *row = K + i * n;
        const double new_pull = optimargin_band_minimiser(
            orientation[i], target[i], D, ridge1[i], ridge2[i], row[i] + intercept_scale, pull[i],
            decision[i] + intercept);
        const double step = new_pull - pull[i];
        if (step == 0.0)
            continue;
        pull[i] = new_pull;
        intercept += intercept_scale * step;
        for (ptrdiff_t j = 0; j < n; j++)
            decision[j] += step * row[j];
    }
    return intercept;
}

/* The objective, and the duality gap with the variables, made to sum to zero when there is an
   intercept, as dual point. No kernel value exceeds `largest`. */
OPTIMARGIN_VECTOR_CLONES static double optimargin_descent_gap(
    ptrdiff_t n, const double *target, const double *orientation, const double *restrict ridge1,
    const double *restrict ridge2, double D, const double *restrict pull,
    const double *restrict decision, double intercept, int fit_intercept, double largest,
    double *value)
{
    double total = 0.0, norm = 0.0, square = 0.0, cross = 0.0, loss = 0.0, conjugate = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double p = pull[i], size = p < 0 ? -p : p;
        total += p;
        norm += size;
        square += p * decision[i];
        cross += size * decision[i];
    }
    const double share = fit_intercept && norm > 0 ? total / norm : 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double r = orientation[i] * (target[i] - decision[i] - intercept);
        const double below = r > D ? r - D : 0.0, above = r < -D ? -r - D : 0.0;
        const double p = pull[i] - share * (pull[i] < 0 ? -pull[i] : pull[i]);
        const double size = p < 0 ? -p : p;
        loss += 0.5 * (below * below / ridge1[i] + above * above / ridge2[i]);
        conjugate += size > 0 ? 0.5 * p * p * (orientation[i] * p > 0 ? ridge1[i] : ridge2[i]) : 0.0;
        conjugate += D * size - target[i] * p;
    }
    *value = 0.5 * square + loss;
    if (fit_intercept)
        square += total * total * largest - 2 * share * cross;
    const double gap = *value + 0.5 * square + conjugate;
    return gap > 0 ? gap : 0.0;
}

#endif
