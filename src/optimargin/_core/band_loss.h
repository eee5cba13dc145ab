/* The band loss C1 max(0, r - D)^2 + C2 max(0, -r - D)^2 of the shortfall r = s (t - f) over many
   samples: decision values f, targets t, orientations s. There are no branches, so that compilers
   vectorise, and because the side of a sample cannot be predicted. Targets and orientations may be
   the same array. */
#ifndef OPTIMARGIN_BAND_LOSS_H
#define OPTIMARGIN_BAND_LOSS_H

#include "vector_clones.h"
#include <stddef.h>

/* The signed distance of the shortfall r to the band, and the penalty of that side. */
#define OPTIMARGIN_BAND_SIDES(r)                                   \
    const double below = (r) > D ? (r) - D : 0.0;                  \
    const double above = (r) < -D ? -(r) - D : 0.0;                \
    const double penalty = ((r) > D ? C1 : 0.0) + ((r) < -D ? C2 : 0.0); \
    const double distance = below - above; /* one of them is zero */

/* The minimiser over one dual variable of q (x - p)^2 / 2 + f (x - p) + x^2 ridge / 2 + D |x| - t x,
   with ridge1 where s x > 0 and ridge2 where s x < 0. */
OPTIMARGIN_INLINE double optimargin_band_minimiser(
    double s, double t, double D, double ridge1, double ridge2, double q, double p, double f)
{
    const double rest = s * (q * p + t - f);
    if (rest > D)
        return s * (rest - D) / (q + ridge1);
    if (rest < -D)
        return s * (rest + D) / (q + ridge2);
    return 0.0;
}

OPTIMARGIN_VECTOR_CLONES static double optimargin_band_evaluate(
    const double *restrict decision, double offset, const double *target, const double *orientation,
    const double *restrict weight, double C1, double C2, double D,
    double *restrict pull, double *restrict curvature, ptrdiff_t n)
{
    double total = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double r = orientation[i] * (target[i] - (decision[i] + offset));
        OPTIMARGIN_BAND_SIDES(r)
        const double half = penalty * weight[i];
        total += half * distance * distance;
        pull[i] = 2.0 * half * distance * orientation[i];
        curvature[i] = 2.0 * half;
    }
    return total;
}

/* What pulls subtract from the dual objective: infinite where a sample has no weight or no penalty
   on the side of its pull. */
OPTIMARGIN_VECTOR_CLONES static double optimargin_band_conjugate(
    const double *restrict pull, const double *target, const double *orientation,
    const double *restrict weight, double C1, double C2, double D, ptrdiff_t n)
{
    double total = 0.0, linear = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double p = pull[i], size = p < 0.0 ? -p : p;
        const double penalty = orientation[i] * p > 0.0 ? C1 : C2;
        total += size != 0.0 ? size * (size / weight[i] / (4.0 * penalty) + D) : 0.0;
        linear += target[i] * p;
    }
    return total - linear;
}

/* Derivatives with respect to the length of a step. A step that is the same for all samples, such
   as that of an intercept, needs no array: two loops, so that neither has branches. */
#define OPTIMARGIN_BAND_DERIVATIVES(STEP)                                              \
    for (ptrdiff_t i = 0; i < n; i++) {                                                \
        const double moved = (STEP);                                                   \
        const double f = decision[i] + offset + length * moved;                        \
        const double r = orientation[i] * (target[i] - f);                             \
        OPTIMARGIN_BAND_SIDES(r)                                                       \
        const double half = penalty * weight[i] * moved;                               \
        const double term = half * distance * orientation[i];                          \
        first -= term;                                                                 \
        magnitude += term > 0.0 ? term : -term;                                        \
        second += half * moved;                                                        \
    }

OPTIMARGIN_VECTOR_CLONES static void optimargin_band_derivatives(
    const double *restrict decision, double offset, const double *restrict step, double step_offset,
    const double *target, const double *orientation, const double *restrict weight,
    double C1, double C2, double D, double length, double *restrict out, ptrdiff_t n)
{
    double first = 0.0, magnitude = 0.0, second = 0.0;
    if (step) {
        OPTIMARGIN_BAND_DERIVATIVES(step[i] + step_offset)
    } else {
        OPTIMARGIN_BAND_DERIVATIVES(step_offset)
    }
    out[0] = 2.0 * first;
    out[1] = 2.0 * magnitude;
    out[2] = 2.0 * second;
}

#endif
