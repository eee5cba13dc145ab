"""Symmetric matrices kept as tiles of their lower triangle, and block coordinate descent on them.

Tile (I, J), J <= I, holds the values between the samples of blocks I and J, at position
I (I + 1) / 2 + J. A step on block J needs the values of its samples with all others: the tiles
(J, :J) of its row and, transposed, (J:, J) of its column. Every tile is one stretch of memory, so
that both are read at full speed and nothing is stored twice.
"""

from cython cimport floating
from cython.parallel cimport parallel, prange, threadid
from libc.stdint cimport uint16_t
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport sgemm

cdef extern from "tiles.h" nogil:
    enum: TILE "OPTIMARGIN_TILE"
    enum: CAN_WAIT "OPTIMARGIN_CAN_WAIT"
    ctypedef struct Barrier "optimargin_barrier":
        int waiting
        int round
    void wait "optimargin_wait"(Barrier* barrier, int n_threads)
    int team_size "optimargin_team_size"()
    void both_fixed "optimargin_tile_both_fixed"(
        const uint16_t* tile, const float* left_v, const float* right_v, double* left,
        double* right)
    void both_float "optimargin_tile_both_float"(
        const float* tile, const float* left_v, const float* right_v, double* left,
        double* right)
    void both_single "optimargin_tile_both_single"(
        const float* tile, const double* left_v, const double* right_v, double* left,
        double* right)
    void both_double "optimargin_tile_both_double"(
        const double* tile, const double* left_v, const double* right_v, double* left,
        double* right)
    void rows_fixed "optimargin_tile_rows_fixed"(
        const uint16_t* tile, const float* v, double* out)
    void rows_float "optimargin_tile_rows_float"(const float* tile, const float* v, double* out)
    void rows_single "optimargin_tile_rows_single"(
        const float* tile, const double* v, double* out)
    void rows_double "optimargin_tile_rows_double"(
        const double* tile, const double* v, double* out)
    void columns_fixed "optimargin_tile_columns_fixed"(
        const uint16_t* tile, const float* v, double* out)
    void columns_float "optimargin_tile_columns_float"(
        const float* tile, const float* v, double* out)
    void values_fixed "optimargin_tile_values_fixed"(
        const uint16_t* tile, float scale, float* out)
    void values_float "optimargin_tile_values_float"(const float* tile, float scale, float* out)
    void pack_fixed "optimargin_tile_pack_fixed"(
        const float* values, Py_ssize_t stride, float scale, uint16_t* tile)
    double block_descent "optimargin_block_descent"(
        const float* values, int n, int passes, double* pull, const double* decision,
        const double* target, const double* orientation, const double* ridge1,
        const double* ridge2, double D, double* intercept, double intercept_scale,
        double* change)

ctypedef fused value:
    uint16_t
    float
    double

ctypedef fused step_value:  # of tiles that a descent works on
    uint16_t
    float

TILE_SIZE = TILE

cdef enum:
    AREA = TILE * TILE


cdef inline Py_ssize_t _offset(Py_ssize_t i, Py_ssize_t j) noexcept nogil:
    return (i * (i + 1) // 2 + j) * AREA


def pack(
    const floating[:, ::1] values,  # in, (TILE, n_columns), n_columns a multiple of TILE
    double scale,  # of fixed point
    value[::1] tiles,  # out, one tile after the other; of the type of `values` or fixed point
):
    """Write values as tiles."""
    cdef Py_ssize_t i, j, stride = values.shape[1]
    with nogil:
        for j in range(stride // TILE):
            if value is uint16_t:
                if floating is float:
                    pack_fixed(&values[0, j * TILE], stride, <float> scale, &tiles[j * AREA])
            else:
                for i in range(TILE):
                    memcpy(
                        &tiles[j * AREA + i * TILE], &values[i, j * TILE], TILE * sizeof(value)
                    )


def product(
    const value[::1] tiles,  # in
    const floating[:, ::1] V,  # in, (n_vectors, n_blocks * TILE)
    double[:, :, ::1] partial,  # out, (n_threads, n_vectors, n_blocks * TILE); zero on entry
    float[:, ::1] work,  # (n_threads * (TILE + n_vectors), TILE)
    int n_threads,
):
    """partial.sum(axis=0) == V @ tiles for the symmetric matrix of the tiles.

    V is float64 for tiles of doubles and float32 for fixed point. For tiles of floats it may be
    either, and sums within a tile are of that type.
    """
    cdef Py_ssize_t n_blocks = V.shape[1] // TILE, n_vectors = V.shape[0], t, i, j, k
    # Rows of tiles increase in length: taking them in turn gives threads equal shares.
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        i = t
        while i < n_blocks:
            for j in range(i + 1):
                if n_vectors == 1 or floating is double:
                    for k in range(n_vectors):
                        _add_both(
                            &tiles[_offset(i, j)], i == j, &V[k, i * TILE], &V[k, j * TILE],
                            &partial[t, k, i * TILE], &partial[t, k, j * TILE],
                        )
                elif floating is float and value is not double:
                    _values(&tiles[_offset(i, j)], 1.0, &work[t * TILE, 0])
                    _multiply(
                        &work[t * TILE, 0], True, &V[0, j * TILE], n_vectors, V.shape[1],
                        &work[n_threads * TILE + t * n_vectors, 0], &partial[t, 0, i * TILE],
                    )
                    if i != j:
                        _multiply(
                            &work[t * TILE, 0], False, &V[0, i * TILE], n_vectors, V.shape[1],
                            &work[n_threads * TILE + t * n_vectors, 0], &partial[t, 0, j * TILE],
                        )
            i = i + n_threads


cdef void _multiply(
    float* values, bint as_rows, const float* v, Py_ssize_t n_vectors, Py_ssize_t stride,
    float* sums, double* out,
) noexcept nogil:
    """out += v @ values (transposed `as_rows`) for vectors that are `stride` apart."""
    cdef Py_ssize_t k, j
    cdef int n = <int> n_vectors, size = TILE, between = <int> stride
    cdef float one = 1.0, zero = 0.0
    cdef char* plain = "N"
    cdef char* transposed = "T"
    # BLAS sees rows as columns: sums' = values' v'.
    sgemm(
        transposed if as_rows else plain, plain, &size, &n, &size, &one, values, &size,
        <float*> v, &between, &zero, sums, &size,
    )
    for k in range(n_vectors):
        for j in range(TILE):
            out[k * stride + j] += sums[k * TILE + j]


cdef inline void _add_both(
    const value* tile, bint diagonal, const floating* left_v, const floating* right_v,
    double* left, double* right,
) noexcept nogil:
    if floating is float:
        if value is uint16_t:
            if diagonal:
                rows_fixed(tile, right_v, left)
            else:
                both_fixed(tile, left_v, right_v, left, right)
        elif value is float:
            if diagonal:
                rows_float(tile, right_v, left)
            else:
                both_float(tile, left_v, right_v, left, right)
    elif value is float:
        if diagonal:
            rows_single(tile, right_v, left)
        else:
            both_single(tile, left_v, right_v, left, right)
    elif value is double:
        if diagonal:
            rows_double(tile, right_v, left)
        else:
            both_double(tile, left_v, right_v, left, right)


cdef inline void _add_rows(const step_value* tile, const float* v, double* out) noexcept nogil:
    if step_value is uint16_t:
        rows_fixed(tile, v, out)
    else:
        rows_float(tile, v, out)


cdef inline void _add_columns(const step_value* tile, const float* v, double* out) noexcept nogil:
    if step_value is uint16_t:
        columns_fixed(tile, v, out)
    else:
        columns_float(tile, v, out)


cdef inline void _values(const step_value* tile, float scale, float* out) noexcept nogil:
    if step_value is uint16_t:
        values_fixed(tile, scale, out)
    else:
        values_float(tile, scale, out)


def epoch(
    const step_value[::1] tiles,  # in
    double unit,  # of the values in tiles
    const Py_ssize_t[::1] order,  # in, of the blocks
    Py_ssize_t n_samples,
    int passes,
    double[:, ::1] pull,  # in, out, (n_outputs, n_blocks * TILE)
    double[:, ::1] decision,  # in, out, the same shape: pull @ matrix
    const double[:, ::1] target,  # in, as all that follows
    const double[:, ::1] orientation,
    const double[:, ::1] ridge1,
    const double[:, ::1] ridge2,
    const double[::1] half_width,  # (n_outputs,)
    double[::1] intercept,  # in, out, (n_outputs,)
    double intercept_scale,
    float[:, ::1] work,  # (n_threads * (TILE + n_outputs), TILE)
    double[:, ::1] change,  # (n_outputs, TILE), work
    float[:, ::1] moved,  # (n_outputs, n_blocks * TILE), work
    int n_threads,
):
    """Visit every block once, for all outputs at a time."""
    cdef Py_ssize_t n_blocks = order.shape[0], n_outputs = pull.shape[0]
    cdef Py_ssize_t t = 0, q = 0, b = 0, i = 0, k = 0, n = 0
    cdef int size = 0
    cdef const step_value* tile = NULL
    cdef Barrier barrier
    barrier.waiting = 0
    barrier.round = 0
    if not CAN_WAIT:
        n_threads = 1
    with nogil, parallel(num_threads=n_threads):
        t = threadid()
        size = team_size()
        for q in range(n_blocks):
            b = order[q]
            n = min(n_samples - b * TILE, <Py_ssize_t> TILE)
            if t < n_outputs:
                _values(&tiles[_offset(b, b)], <float> unit, &work[t * TILE, 0])
            k = t
            while k < n_outputs:
                memset(&change[k, 0], 0, TILE * sizeof(double))
                block_descent(
                    &work[t * TILE, 0], <int> n, passes, &pull[k, b * TILE],
                    &decision[k, b * TILE], &target[k, b * TILE], &orientation[k, b * TILE],
                    &ridge1[k, b * TILE], &ridge2[k, b * TILE], half_width[k], &intercept[k],
                    intercept_scale, &change[k, 0],
                )
                for i in range(TILE):
                    moved[k, b * TILE + i] = <float> (change[k, i] * unit)
                k = k + size
            wait(&barrier, size)
            i = t
            while i < n_blocks:
                tile = &tiles[_offset(i, b) if i >= b else _offset(b, i)]
                if n_outputs > 1:
                    _values(tile, 1.0, &work[t * TILE, 0])
                    _multiply(
                        &work[t * TILE, 0], i >= b, &moved[0, b * TILE], n_outputs,
                        moved.shape[1], &work[n_threads * TILE + t * n_outputs, 0],
                        &decision[0, i * TILE],
                    )
                elif i >= b:
                    _add_rows(tile, &moved[0, b * TILE], &decision[0, i * TILE])
                else:
                    _add_columns(tile, &moved[0, b * TILE], &decision[0, i * TILE])
                i = i + size
            wait(&barrier, size)
