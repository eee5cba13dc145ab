/* Products with one tile of a symmetric matrix, and coordinate descent inside a block.

   A tile is a square of OPTIMARGIN_TILE rows and columns, row by row, as double, as float or as
   16-bit fixed point. */
#ifndef OPTIMARGIN_TILES_H
#define OPTIMARGIN_TILES_H

#include "band_loss.h"
#include "vector_clones.h"
#include <stddef.h>
#include <stdint.h>

#define OPTIMARGIN_TILE 128

/* left[:] += tile @ right_v; right[:] += left_v @ tile: entry (i, j) serves (j, i), too. Four rows
   at a time, because vectors would otherwise be read as often as the tile. */
#define OPTIMARGIN_DEFINE_PRODUCTS(NAME, T, A)                                                   \
    OPTIMARGIN_VECTOR_CLONES static void optimargin_tile_both_##NAME(                            \
        const T *restrict tile, const A *restrict left_v, const A *restrict right_v,             \
        double *restrict left, double *restrict right)                                           \
    {                                                                                            \
        A sums[OPTIMARGIN_TILE] = {0};                                                           \
        for (int i = 0; i < OPTIMARGIN_TILE; i += 4) {                                           \
            const T *p = tile + (ptrdiff_t)i * OPTIMARGIN_TILE;                                  \
            const T *q = p + OPTIMARGIN_TILE, *r = q + OPTIMARGIN_TILE, *s = r + OPTIMARGIN_TILE; \
            const A vp = left_v[i], vq = left_v[i + 1], vr = left_v[i + 2], vs = left_v[i + 3];  \
            A a = 0, b = 0, c = 0, d = 0;                                                        \
            for (int j = 0; j < OPTIMARGIN_TILE; j++) {                                          \
                const A pj = p[j], qj = q[j], rj = r[j], sj = s[j], v = right_v[j];              \
                a += pj * v;                                                                     \
                b += qj * v;                                                                     \
                c += rj * v;                                                                     \
                d += sj * v;                                                                     \
                sums[j] += (vp * pj + vq * qj) + (vr * rj + vs * sj);                            \
            }                                                                                    \
            left[i] += a;                                                                        \
            left[i + 1] += b;                                                                    \
            left[i + 2] += c;                                                                    \
            left[i + 3] += d;                                                                    \
        }                                                                                        \
        for (int j = 0; j < OPTIMARGIN_TILE; j++)                                                \
            right[j] += sums[j];                                                                 \
    }                                                                                            \
                                                                                                 \
    /* out[:] += tile @ v */                                                                     \
    OPTIMARGIN_VECTOR_CLONES static void optimargin_tile_rows_##NAME(                            \
        const T *restrict tile, const A *restrict v, double *restrict out)                       \
    {                                                                                            \
        for (int i = 0; i < OPTIMARGIN_TILE; i += 4) {                                           \
            const T *p = tile + (ptrdiff_t)i * OPTIMARGIN_TILE;                                  \
            const T *q = p + OPTIMARGIN_TILE, *r = q + OPTIMARGIN_TILE, *s = r + OPTIMARGIN_TILE; \
            A a = 0, b = 0, c = 0, d = 0;                                                        \
            for (int j = 0; j < OPTIMARGIN_TILE; j++) {                                          \
                a += (A)p[j] * v[j];                                                             \
                b += (A)q[j] * v[j];                                                             \
                c += (A)r[j] * v[j];                                                             \
                d += (A)s[j] * v[j];                                                             \
            }                                                                                    \
            out[i] += a;                                                                         \
            out[i + 1] += b;                                                                     \
            out[i + 2] += c;                                                                     \
            out[i + 3] += d;                                                                     \
        }                                                                                        \
    }

#define OPTIMARGIN_DEFINE_STEPS(NAME, T)                                                         \
    /* out[:] += v @ tile; rows whose v is zero are not read */                                  \
    OPTIMARGIN_VECTOR_CLONES static void optimargin_tile_columns_##NAME(                         \
        const T *restrict tile, const float *restrict v, double *restrict out)                   \
    {                                                                                            \
        float sums[OPTIMARGIN_TILE] = {0};                                                       \
        for (int i = 0; i < OPTIMARGIN_TILE; i += 4) {                                           \
            const T *p = tile + (ptrdiff_t)i * OPTIMARGIN_TILE;                                  \
            const T *q = p + OPTIMARGIN_TILE, *r = q + OPTIMARGIN_TILE, *s = r + OPTIMARGIN_TILE; \
            const float vp = v[i], vq = v[i + 1], vr = v[i + 2], vs = v[i + 3];                  \
            if (vp == 0 && vq == 0 && vr == 0 && vs == 0)                                        \
                continue;                                                                        \
            for (int j = 0; j < OPTIMARGIN_TILE; j++)                                            \
                sums[j] += (vp * p[j] + vq * q[j]) + (vr * r[j] + vs * s[j]);                    \
        }                                                                                        \
        for (int j = 0; j < OPTIMARGIN_TILE; j++)                                                \
            out[j] += sums[j];                                                                   \
    }                                                                                            \
                                                                                                 \
    /* out[:] = scale * tile */                                                                  \
    OPTIMARGIN_VECTOR_CLONES static void optimargin_tile_values_##NAME(                          \
        const T *restrict tile, float scale, float *restrict out)                                \
    {                                                                                            \
        for (int k = 0; k < OPTIMARGIN_TILE * OPTIMARGIN_TILE; k++)                              \
            out[k] = scale * (float)tile[k];                                                     \
    }

OPTIMARGIN_DEFINE_PRODUCTS(fixed, uint16_t, float)
OPTIMARGIN_DEFINE_PRODUCTS(float, float, float)
OPTIMARGIN_DEFINE_PRODUCTS(single, float, double)
OPTIMARGIN_DEFINE_PRODUCTS(double, double, double)
OPTIMARGIN_DEFINE_STEPS(fixed, uint16_t)
OPTIMARGIN_DEFINE_STEPS(float, float)

/* tile[:] = scale * values, rounded, of rows that are `stride` apart */
OPTIMARGIN_VECTOR_CLONES static void optimargin_tile_pack_fixed(
    const float *restrict values, ptrdiff_t stride, float scale, uint16_t *restrict tile)
{
    for (int i = 0; i < OPTIMARGIN_TILE; i++)
        for (int j = 0; j < OPTIMARGIN_TILE; j++)
            tile[i * OPTIMARGIN_TILE + j] = (uint16_t)(int32_t)(values[i * stride + j] * scale + 0.5f);
}

/* Coordinate descent over the variables of one block, all others fixed: `passes` sweeps, forth and
   back in turn. On entry `change` is zero; on return it is what was added to `pull`. Returns the
   largest change of a variable in the first sweep. */
OPTIMARGIN_VECTOR_CLONES static double optimargin_block_descent(
    const float *restrict values, int n, int passes, double *restrict pull,
    const double *restrict decision, const double *target, const double *orientation,
    const double *ridge1, const double *ridge2, double D,
    double *restrict intercept, double intercept_scale, double *restrict change)
{
    float moved[OPTIMARGIN_TILE] = {0}; /* of the decision values */
    double offset = *intercept, largest = 0.0;
    for (int pass = 0; pass < passes; pass++) {
        double moves = 0.0;
        for (int k = 0; k < n; k++) {
            const int i = pass % 2 ? n - 1 - k : k;
            const float *row = values + (ptrdiff_t)i * OPTIMARGIN_TILE;
            const double new_pull = optimargin_band_minimiser(
                orientation[i], target[i], D, ridge1[i], ridge2[i], row[i] + intercept_scale,
                pull[i], decision[i] + moved[i] + offset);
            const double step = new_pull - pull[i], length = step < 0 ? -step : step;
            if (step == 0.0)
                continue;
            moves = length > moves ? length : moves;
            pull[i] = new_pull;
            change[i] += step;
            offset += intercept_scale * step;
            const float single = (float)step;
            for (int j = 0; j < OPTIMARGIN_TILE; j++)
                moved[j] += single * row[j];
        }
        if (pass == 0)
            largest = moves;
        if (moves == 0.0)
            break;
    }
    *intercept = offset;
    return largest;
}

/* A barrier for a fixed number of threads inside one parallel region. Blocks follow each other
   within microseconds: a barrier that sleeps would take longer than the work. So waiting threads
   spin for a moment, and then yield the processor to whoever needs it. */
#if defined(__GNUC__) && defined(_OPENMP) && !defined(_WIN32)
#include <omp.h>
#include <sched.h>
#define OPTIMARGIN_CAN_WAIT 1
typedef struct {
    int waiting, round;
} optimargin_barrier;

static inline void optimargin_wait(optimargin_barrier *barrier, int n_threads)
{
    const int round = __atomic_load_n(&barrier->round, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&barrier->waiting, 1, __ATOMIC_ACQ_REL) == n_threads) {
        __atomic_store_n(&barrier->waiting, 0, __ATOMIC_RELAXED);
        __atomic_add_fetch(&barrier->round, 1, __ATOMIC_RELEASE);
        return;
    }
    for (int spins = 0; __atomic_load_n(&barrier->round, __ATOMIC_ACQUIRE) == round; spins++)
        if (spins > 4000)
            sched_yield();
}

/* Of the parallel region: it may be smaller than what was asked for. */
static inline int optimargin_team_size(void) { return omp_get_num_threads(); }
#else
#define OPTIMARGIN_CAN_WAIT 0
typedef struct {
    int waiting, round;
} optimargin_barrier;
static inline void optimargin_wait(optimargin_barrier *barrier, int n_threads) {}
static inline int optimargin_team_size(void) { return 1; }
#endif

#endif
