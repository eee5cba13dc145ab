/* A row of RBF kernel values, with an exponential that compilers vectorise: no branches, no
   tables, no calls.

   x = n ln 2 + r with |r| <= ln(2) / 2, exp(x) = 2^n exp(r), exp(r) by its Taylor polynomial,
   for x <= 0 in the normal range. Relative error about one unit in the last place. Must be
   compiled without reassociation: the two-part ln 2 depends on the order. */
#ifndef OPTIMARGIN_RBF_ROW_H
#define OPTIMARGIN_RBF_ROW_H

#include "vector_clones.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

OPTIMARGIN_INLINE float optimargin_exp_float(float x) {
    const int32_t n = (int32_t)(x * 1.44269504f - 0.5f);
    const float r = (x - (float)n * 0.693359375f) + (float)n * 2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const int32_t bits = (n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

OPTIMARGIN_INLINE double optimargin_exp_double(double x) {
    const int32_t n = (int32_t)(x * 1.4426950408889634 - 0.5);
    const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    const int64_t bits = (int64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* row[j] = exp(scale * (row_norm + column_norms[j] - 2 row[j])), the exponent kept in [LOWEST, 0].
   Two loops: in one, compilers would branch around the exponential of a clipped value. */
#define OPTIMARGIN_RBF_ROW(T, LOWEST)                                                            \
    OPTIMARGIN_VECTOR_CLONES                                                                     \
    static void optimargin_rbf_row_##T(T *restrict row, T row_norm,                              \
                                       const T *restrict column_norms, T scale, ptrdiff_t n) {   \
        for (ptrdiff_t j = 0; j < n; j++) {                                                      \
            const T exponent = scale * (row_norm + column_norms[j] - 2 * row[j]);                \
            const T below = exponent < 0 ? exponent : 0;                                         \
            row[j] = below > LOWEST ? below : LOWEST;                                            \
        }                                                                                        \
        for (ptrdiff_t j = 0; j < n; j++) {                                                      \
            row[j] = optimargin_exp_##T(row[j]);                                                 \
        }                                                                                        \
    }

OPTIMARGIN_RBF_ROW(float, -87.0f)
OPTIMARGIN_RBF_ROW(double, -708.0)

#endif
