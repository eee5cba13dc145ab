/* The ODM loss C1 max(0, 1 - D - g)^2 + C2 max(0, g - 1 - D)^2 over many margins. No branches, so
   that compilers vectorise: which side of the band a margin is on cannot be predicted. */
#ifndef OPTIMARGIN_ODM_LOSS_H
#define OPTIMARGIN_ODM_LOSS_H

#include "vector_clones.h"
#include <stddef.h>

OPTIMARGIN_VECTOR_CLONES static double optimargin_odm_evaluate(
    const double *restrict margin, const double *restrict weight, double C1, double C2, double D,
    double *restrict dual, double *restrict curvature, ptrdiff_t n)
{
    const double lower = 1.0 - D, upper = 1.0 + D;
    double total = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double below = margin[i] < lower ? lower - margin[i] : 0.0;
        const double above = margin[i] > upper ? margin[i] - upper : 0.0;
        const double scale = (margin[i] < lower ? C1 : 0.0) + (margin[i] > upper ? C2 : 0.0);
        const double distance = below - above; /* one of them is zero */
        const double half = scale * weight[i];
        total += half * distance * distance;
        dual[i] = 2.0 * half * distance;
        curvature[i] = 2.0 * half;
    }
    return total;
}

OPTIMARGIN_VECTOR_CLONES static void optimargin_odm_derivatives(
    const double *restrict margin, const double *restrict slope, const double *restrict weight,
    double C1, double C2, double D, double t, double *restrict out, ptrdiff_t n)
{
    const double lower = 1.0 - D, upper = 1.0 + D;
    double first = 0.0, magnitude = 0.0, second = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double g = margin[i] + t * slope[i];
        const double below = g < lower ? lower - g : 0.0;
        const double above = g > upper ? g - upper : 0.0;
        const double scale = (g < lower ? C1 : 0.0) + (g > upper ? C2 : 0.0);
        const double half = scale * weight[i] * slope[i];
        const double term = half * (above - below);
        first += term;
        magnitude += term > 0.0 ? term : -term;
        second += half * slope[i];
    }
    out[0] = 2.0 * first;
    out[1] = 2.0 * magnitude;
    out[2] = 2.0 * second;
}

#endif
