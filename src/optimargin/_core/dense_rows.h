/* Products of dense rows with vectors, four rows at a time: each entry of the vector is loaded, or
   each sum stored, once for four rows. */
#ifndef OPTIMARGIN_DENSE_ROWS_H
#define OPTIMARGIN_DENSE_ROWS_H

#include "vector_clones.h"
#include <stddef.h>

/* times_vector: out[i] = X[i] @ v - shift.
   add_rows: out += r @ X; rows where r is zero need not be read.
   moments: first += weight @ (X - pivot); returns sum(weight * |X[i] - pivot|^2). */
#define OPTIMARGIN_DENSE_ROWS(T)                                                                 \
    OPTIMARGIN_VECTOR_CLONES static void optimargin_times_vector_##T(                            \
        const T *restrict X, ptrdiff_t n, ptrdiff_t d, const double *restrict v, double shift,   \
        double *restrict out)                                                                    \
    {                                                                                            \
        ptrdiff_t i = 0;                                                                         \
        for (; i + 4 <= n; i += 4) {                                                             \
            const T *p = X + i * d, *q = p + d, *r = q + d, *s = r + d;                          \
            double a = 0.0, b = 0.0, c = 0.0, e = 0.0;                                           \
            for (ptrdiff_t j = 0; j < d; j++) {                                                  \
                a += p[j] * v[j];                                                                \
                b += q[j] * v[j];                                                                \
                c += r[j] * v[j];                                                                \
                e += s[j] * v[j];                                                                \
            }                                                                                    \
            out[i] = a - shift;                                                                  \
            out[i + 1] = b - shift;                                                              \
            out[i + 2] = c - shift;                                                              \
            out[i + 3] = e - shift;                                                              \
        }                                                                                        \
        for (; i < n; i++) {                                                                     \
            double a = 0.0;                                                                      \
            for (ptrdiff_t j = 0; j < d; j++)                                                    \
                a += X[i * d + j] * v[j];                                                        \
            out[i] = a - shift;                                                                  \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    OPTIMARGIN_VECTOR_CLONES static void optimargin_add_rows_##T(                                \
        const T *restrict X, ptrdiff_t n, ptrdiff_t d, const double *restrict r,                 \
        double *restrict out)                                                                    \
    {                                                                                            \
        ptrdiff_t i = 0;                                                                         \
        for (; i + 4 <= n; i += 4) {                                                             \
            const T *p = X + i * d, *q = p + d, *s = q + d, *t = s + d;                          \
            const double a = r[i], b = r[i + 1], c = r[i + 2], e = r[i + 3];                     \
            if (a == 0.0 && b == 0.0 && c == 0.0 && e == 0.0)                                    \
                continue;                                                                        \
            for (ptrdiff_t j = 0; j < d; j++)                                                    \
                out[j] += (a * p[j] + b * q[j]) + (c * s[j] + e * t[j]);                         \
        }                                                                                        \
        for (; i < n; i++)                                                                       \
            for (ptrdiff_t j = 0; j < d; j++)                                                    \
                out[j] += r[i] * X[i * d + j];                                                   \
    }                                                                                            \
                                                                                                 \
    OPTIMARGIN_VECTOR_CLONES static double optimargin_sum_of_squares_##T(                        \
        const T *restrict x, ptrdiff_t n)                                                        \
    {                                                                                            \
        double total = 0.0;                                                                      \
        for (ptrdiff_t i = 0; i < n; i++)                                                        \
            total += (double)x[i] * (double)x[i];                                                \
        return total;                                                                            \
    }                                                                                            \
                                                                                                 \
    OPTIMARGIN_VECTOR_CLONES static double optimargin_moments_##T(                               \
        const T *restrict X, ptrdiff_t n, ptrdiff_t d, const double *restrict pivot,             \
        const double *restrict weight, double *restrict first)                                   \
    {                                                                                            \
        double second = 0.0;                                                                     \
        for (ptrdiff_t i = 0; i < n; i++) {                                                      \
            double squares = 0.0;                                                                \
            for (ptrdiff_t j = 0; j < d; j++) {                                                  \
                const double z = X[i * d + j] - pivot[j];                                        \
                first[j] += weight[i] * z;                                                       \
                squares += z * z;                                                                \
            }                                                                                    \
            second += weight[i] * squares;                                                       \
        }                                                                                        \
        return second;                                                                           \
    }

OPTIMARGIN_DENSE_ROWS(float)
OPTIMARGIN_DENSE_ROWS(double)

#endif
