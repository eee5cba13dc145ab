"""Products of dense rows with vectors and with themselves, in our own threads.

The data stay float32 or float64 as the caller holds them; every vector is float64 and every sum
is accumulated in float64. Each thread takes a contiguous part of the rows and has its own sums.
Where BLAS is called, it must be limited to one thread: two pools would wait for each other.
"""

from cython cimport floating
from cython.parallel cimport prange
from scipy.linalg.cython_blas cimport dsyrk

cdef extern from "dense_rows.h" nogil:
    void optimargin_times_vector_float(
        const float* X, Py_ssize_t n, Py_ssize_t d, const double* v, double shift, double* out
    )
    void optimargin_times_vector_double(
        const double* X, Py_ssize_t n, Py_ssize_t d, const double* v, double shift, double* out
    )
    void optimargin_add_rows_float(
        const float* X, Py_ssize_t n, Py_ssize_t d, const double* r, double* out
    )
    void optimargin_add_rows_double(
        const double* X, Py_ssize_t n, Py_ssize_t d, const double* r, double* out
    )
    double optimargin_sum_of_squares_float(const float* x, Py_ssize_t n)
    double optimargin_sum_of_squares_double(const double* x, Py_ssize_t n)
    double optimargin_moments_float(
        const float* X, Py_ssize_t n, Py_ssize_t d, const double* pivot, const double* weight,
        double* first
    )
    double optimargin_moments_double(
        const double* X, Py_ssize_t n, Py_ssize_t d, const double* pivot, const double* weight,
        double* first
    )


cdef inline void times_vector(
    const floating* X, Py_ssize_t n, Py_ssize_t d, const double* v, double shift, double* out
) noexcept nogil:
    """out[:] = X @ v - shift"""
    if floating is float:
        optimargin_times_vector_float(X, n, d, v, shift, out)
    else:
        optimargin_times_vector_double(X, n, d, v, shift, out)


cdef inline void add_rows(
    const floating* X, Py_ssize_t n, Py_ssize_t d, const double* r, double* out
) noexcept nogil:
    """out += r @ X"""
    if floating is float:
        optimargin_add_rows_float(X, n, d, r, out)
    else:
        optimargin_add_rows_double(X, n, d, r, out)


def sum_of_squares(const floating[::1] values, double[::1] partial, int n_threads):
    """Return sum(values ** 2); `partial` has one number per thread."""
    cdef Py_ssize_t n = values.shape[0], t, first, last
    if n == 0:
        return 0.0
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        first = n * t // n_threads
        last = n * (t + 1) // n_threads
        if floating is float:
            partial[t] = optimargin_sum_of_squares_float(&values[0] + first, last - first)
        else:
            partial[t] = optimargin_sum_of_squares_double(&values[0] + first, last - first)
    return sum(partial)


def dense_moments(
    const floating[:, ::1] X,  # in
    const double[::1] pivot,  # in
    const double[::1] weight,  # in
    double[:, ::1] partial,  # out: (n_threads, n_features), zeros
    double[::1] squares,  # out: (n_threads,)
    int n_threads,
):
    """partial.sum(0) = weight @ (X - pivot); squares.sum() = weight @ |X - pivot|**2."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], t, first, last
    if n == 0 or d == 0:
        return
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        first = n * t // n_threads
        last = n * (t + 1) // n_threads
        if floating is float:
            squares[t] = optimargin_moments_float(
                &X[0, 0] + first * d, last - first, d, &pivot[0], &weight[0] + first,
                &partial[t, 0]
            )
        else:
            squares[t] = optimargin_moments_double(
                &X[0, 0] + first * d, last - first, d, &pivot[0], &weight[0] + first,
                &partial[t, 0]
            )


def dense_matvec(
    const floating[:, ::1] X,  # in
    const Py_ssize_t[::1] rows,  # in; None means all of them
    const double[::1] v,  # in
    double shift,
    double[::1] out,  # out, one per row
    int n_threads,
):
    """out[:] = X[rows] @ v - shift."""
    cdef Py_ssize_t n = out.shape[0], d = X.shape[1], t, first, last
    if n == 0 or d == 0:
        out[:] = -shift
        return
    if rows is not None:
        for t in prange(n, nogil=True, num_threads=n_threads, schedule="static"):
            times_vector(&X[rows[t], 0], 1, d, &v[0], shift, &out[t])
        return
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        first = n * t // n_threads
        last = n * (t + 1) // n_threads
        times_vector(&X[0, 0] + first * d, last - first, d, &v[0], shift, &out[0] + first)


def dense_rmatvec(
    const floating[:, ::1] X,  # in
    const double[::1] r,  # in
    double[:, ::1] partial,  # out, one row per thread; must be zero on entry
    int n_threads,
):
    """partial.sum(axis=0) == X.T @ r."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], t, first, last
    if n == 0 or d == 0:
        return
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        first = n * t // n_threads
        last = n * (t + 1) // n_threads
        add_rows(&X[0, 0] + first * d, last - first, d, &r[0] + first, &partial[t, 0])


def dense_weighted_gram(
    const floating[:, ::1] X,  # in
    const double[::1] center,  # in
    const Py_ssize_t[::1] rows,  # in
    const double[::1] root,  # in, one per row of `rows`
    double sign,
    double[:, :, ::1] packed,  # (n_threads, rows per block, d + 1), work space
    double[:, :, ::1] partial,  # in, out: one (d + 1, d + 1) matrix per thread
    int n_threads,
):
    """partial.sum(axis=0) += sign * P.T @ P, P = root * [X - center, 1][rows], lower triangle.

    Rows are packed a few at a time, so that they are in the cache for the product.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], n_block = packed.shape[1], t
    if n_rows == 0:
        return
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        _add_gram(
            X, center, rows, root, n_rows * t // n_threads, n_rows * (t + 1) // n_threads,
            sign, &packed[t, 0, 0], n_block, &partial[t, 0, 0],
        )


cdef void _add_gram(
    const floating[:, ::1] X, const double[::1] center, const Py_ssize_t[::1] rows,
    const double[::1] root, Py_ssize_t first, Py_ssize_t last, double sign, double* packed,
    Py_ssize_t n_block, double* gram,
) noexcept nogil:
    cdef int size = <int> X.shape[1] + 1, height
    cdef double one = 1.0
    while first < last:
        height = <int> min(n_block, last - first)
        _pack(X, center, rows, root, first, first + height, packed)
        # BLAS is column-major: its upper triangle is our lower triangle.
        dsyrk(b"U", b"N", &size, &height, &sign, packed, &size, &one, gram, &size)
        first += height


cdef void _pack(
    const floating[:, ::1] X, const double[::1] center, const Py_ssize_t[::1] rows,
    const double[::1] root, Py_ssize_t first, Py_ssize_t last, double* target,
) noexcept nogil:
    """target[:, :d] = root[:, None] * (X[rows] - center); target[:, d] = root."""
    cdef Py_ssize_t d = X.shape[1], k, j
    cdef const floating* row
    for k in range(first, last):
        row = &X[rows[k], 0]
        for j in range(d):
            target[j] = root[k] * (row[j] - center[j])
        target[d] = root[k]
        target += d + 1


def dense_hessian_product(
    const floating[:, ::1] X,  # in
    const double[::1] center,  # in
    const Py_ssize_t[::1] rows,  # in
    const double[::1] weight,  # in, one per row of `rows`
    const double[::1] v,  # in
    double[::1] image,  # out, one per row of `rows`
    double[:, ::1] partial,  # out, (n_threads, d); zero on entry
    int n_threads,
):
    """image[:] = weight * (Z @ v), partial.sum(axis=0) == Z.T @ image for Z = X[rows] - center.

    Each row is read once for both products.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], d = X.shape[1], j, t
    cdef double shift = 0.0
    if n_rows == 0:
        return
    for j in range(d):
        shift += center[j] * v[j]
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        _add_hessian_product(
            X, center, rows, weight, n_rows * t // n_threads, n_rows * (t + 1) // n_threads,
            &v[0], shift, &image[0], &partial[t, 0],
        )


cdef void _add_hessian_product(
    const floating[:, ::1] X, const double[::1] center, const Py_ssize_t[::1] rows,
    const double[::1] weight, Py_ssize_t first, Py_ssize_t last, const double* v, double shift,
    double* image, double* out,
) noexcept nogil:
    cdef Py_ssize_t d = X.shape[1], k, j
    cdef double total = 0.0
    for k in range(first, last):
        times_vector(&X[rows[k], 0], 1, d, v, shift, &image[k])
        image[k] *= weight[k]
        add_rows(&X[rows[k], 0], 1, d, &image[k], out)
        total += image[k]
    for j in range(d):
        out[j] -= total * center[j]
