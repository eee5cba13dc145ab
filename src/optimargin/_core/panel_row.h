/* Rows of a panel of a symmetric matrix; each entry is used for both (i, j) and (j, i). */
#ifndef OPTIMARGIN_PANEL_ROW_H
#define OPTIMARGIN_PANEL_ROW_H

#include "vector_clones.h"
#include <stddef.h>

/* rows: four rows of `width` entries, one after the other.
   total[k] += rows[k] @ v; out[:square] += scale[:4] @ rows[:, :square].
   Four at a time, because v and out would otherwise be read as often as the matrix. */
#define OPTIMARGIN_DEFINE_PANEL_ROWS(T)                                                          \
    OPTIMARGIN_VECTOR_CLONES static void optimargin_panel_rows_##T(                              \
        const T *restrict rows, ptrdiff_t square, ptrdiff_t width, const double *restrict scale, \
        const double *restrict v, double *restrict out, double *restrict total)                  \
    {                                                                                            \
        const T *p = rows, *q = p + width, *r = q + width, *s = r + width;                       \
        double a = 0.0, b = 0.0, c = 0.0, d = 0.0;                                               \
        for (ptrdiff_t j = 0; j < square; j++) {                                                 \
            const double pj = p[j], qj = q[j], rj = r[j], sj = s[j];                             \
            a += pj * v[j];                                                                      \
            b += qj * v[j];                                                                      \
            c += rj * v[j];                                                                      \
            d += sj * v[j];                                                                      \
            out[j] += (scale[0] * pj + scale[1] * qj) + (scale[2] * rj + scale[3] * sj);         \
        }                                                                                        \
        for (ptrdiff_t j = square; j < width; j++) {                                             \
            a += p[j] * v[j];                                                                    \
            b += q[j] * v[j];                                                                    \
            c += r[j] * v[j];                                                                    \
            d += s[j] * v[j];                                                                    \
        }                                                                                        \
        total[0] += a;                                                                           \
        total[1] += b;                                                                           \
        total[2] += c;                                                                           \
        total[3] += d;                                                                           \
    }                                                                                            \
                                                                                                 \
    /* The same for one row. */                                                                  \
    OPTIMARGIN_VECTOR_CLONES static void optimargin_panel_row_##T(                               \
        const T *restrict row, ptrdiff_t square, ptrdiff_t width, double scale,                  \
        const double *restrict v, double *restrict out, double *restrict total)                  \
    {                                                                                            \
        double a = 0.0;                                                                          \
        for (ptrdiff_t j = 0; j < square; j++) {                                                 \
            a += row[j] * v[j];                                                                  \
            out[j] += scale * row[j];                                                            \
        }                                                                                        \
        for (ptrdiff_t j = square; j < width; j++)                                               \
            a += row[j] * v[j];                                                                  \
        total[0] += a;                                                                           \
    }

OPTIMARGIN_DEFINE_PANEL_ROWS(float)
OPTIMARGIN_DEFINE_PANEL_ROWS(double)

#endif
