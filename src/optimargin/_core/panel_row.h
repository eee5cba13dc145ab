/* One row of a panel of a symmetric matrix, used for both of its places. */
#ifndef OPTIMARGIN_PANEL_ROW_H
#define OPTIMARGIN_PANEL_ROW_H

#include "vector_clones.h"
#include <stddef.h>

/* Return row[:width] @ v; out[:square] += scale * row[:square]. */
#define OPTIMARGIN_DEFINE_PANEL_ROW(NAME, TYPE)                                                   \
    OPTIMARGIN_VECTOR_CLONES static double NAME(                                                  \
        const TYPE *restrict row, ptrdiff_t square, ptrdiff_t width, double scale,                \
        const double *restrict v, double *restrict out)                                           \
    {                                                                                             \
        double total = 0.0;                                                                       \
        for (ptrdiff_t j = 0; j < square; j++) {                                                  \
            const double value = row[j];                                                          \
            total += value * v[j];                                                                \
            out[j] += scale * value;                                                              \
        }                                                                                         \
        for (ptrdiff_t j = square; j < width; j++)                                                \
            total += row[j] * v[j];                                                               \
        return total;                                                                             \
    }

OPTIMARGIN_DEFINE_PANEL_ROW(optimargin_panel_row_float, float)
OPTIMARGIN_DEFINE_PANEL_ROW(optimargin_panel_row_double, double)

#endif
