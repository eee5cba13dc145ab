"""Products of sparse rows with vectors and with themselves, in our own threads.

The data stay float32 or float64 as the caller holds them; every vector is float64 and every sum
is accumulated in float64.
"""

from cython cimport floating
from cython.parallel cimport prange

from optimargin._core._sparse cimport gather_dot, index_t, scatter_add

cdef enum:
    BLOCK = 256  # rows whose entries fit into a core's own cache


def csr_matvec(
    const floating[::1] data,  # in
    const index_t[::1] indices,  # in
    const index_t[::1] indptr,  # in
    const Py_ssize_t[::1] rows,  # in; None means all of them
    const double[::1] v,  # in
    double[::1] out,  # out, one per row
    int n_threads,
):
    """out[:] = X[rows] @ v."""
    cdef Py_ssize_t n_rows = out.shape[0], k
    if data.shape[0] == 0:
        out[:] = 0.0
        return
    if rows is None:
        for k in prange(n_rows, nogil=True, num_threads=n_threads, schedule="static"):
            out[k] = _row_dot(&data[0], &indices[0], &indptr[k], &v[0])
        return
    for k in prange(n_rows, nogil=True, num_threads=n_threads, schedule="static"):
        out[k] = _row_dot(&data[0], &indices[0], &indptr[rows[k]], &v[0])


cdef inline double _row_dot(
    const floating* data, const index_t* indices, const index_t* begin, const double* v
) noexcept nogil:
    """Return the product of the row whose entries begin at begin[0] and end at begin[1]."""
    return gather_dot(data + begin[0], indices + begin[0], v, begin[1] - begin[0])


def csr_rmatvec(
    const floating[::1] data,  # in
    const index_t[::1] indices,  # in
    const index_t[::1] indptr,  # in
    const double[::1] r,  # in
    double[:, ::1] partial,  # out, one row per thread; must be zero on entry
    int n_threads,
):
    """partial.sum(axis=0) == X.T @ r; rows where r is zero are never read."""
    cdef Py_ssize_t n_rows = indptr.shape[0] - 1, i, t
    if data.shape[0] == 0:
        return
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        for i in range(n_rows * t // n_threads, n_rows * (t + 1) // n_threads):
            if r[i] != 0.0:
                scatter_add(
                    r[i], &data[0] + indptr[i], &indices[0] + indptr[i], &partial[t, 0],
                    indptr[i + 1] - indptr[i],
                )


def csr_squared_norms(
    const floating[::1] data,  # in
    const index_t[::1] indptr,  # in
    double[::1] out,  # out
    int n_threads,
):
    """out[:] = the sums of squares of the rows of X."""
    cdef Py_ssize_t n_rows = indptr.shape[0] - 1, i
    for i in prange(n_rows, nogil=True, num_threads=n_threads, schedule="static"):
        out[i] = _sum_of_squares(&data[0], indptr[i], indptr[i + 1])


cdef double _sum_of_squares(
    const floating* data, Py_ssize_t first, Py_ssize_t last
) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t k
    for k in range(first, last):
        total += <double> data[k] * data[k]
    return total


def csr_weighted_squares(
    const floating[::1] data,  # in
    const index_t[::1] indices,  # in
    const index_t[::1] indptr,  # in
    const Py_ssize_t[::1] rows,  # in
    const double[::1] weight,  # in, one per row of `rows`
    double[::1] out,  # in, out
):
    """out += sum of weight * X[rows] ** 2 over the rows."""
    cdef Py_ssize_t r, i, k
    with nogil:
        for r in range(rows.shape[0]):
            i = rows[r]
            for k in range(indptr[i], indptr[i + 1]):
                out[indices[k]] += weight[r] * data[k] * data[k]


def csr_weighted_gram(
    const floating[::1] data,  # in
    const index_t[::1] indices,  # in, sorted within a row
    const index_t[::1] indptr,  # in
    const Py_ssize_t[::1] rows,  # in
    const double[::1] weight,  # in, one per row of `rows`; any sign
    double[:, :, ::1] partial,  # in, out: one (d + 1, d + 1) matrix per thread
    int n_threads,
):
    """partial.sum(axis=0) += Z.T @ diag(weight) @ Z with Z = [X, 1][rows], lower triangle."""
    cdef Py_ssize_t n_rows = rows.shape[0], n_cols = partial.shape[2] - 1, i, k, l, t, r
    cdef double scale
    cdef double* target
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        for r in range(n_rows * t // n_threads, n_rows * (t + 1) // n_threads):
            i = rows[r]
            for k in range(indptr[i], indptr[i + 1]):
                scale = weight[r] * data[k]
                target = &partial[t, indices[k], 0]
                for l in range(indptr[i], k + 1):
                    target[indices[l]] += scale * data[l]
                partial[t, n_cols, indices[k]] += scale
            partial[t, n_cols, n_cols] += weight[r]


def csr_gram(
    const floating[::1] data,  # in
    const index_t[::1] indices,  # in
    const index_t[::1] indptr,  # in
    const floating[::1] column_data,  # in: the same matrix by columns
    const index_t[::1] column_indices,  # in, sorted within a column
    const index_t[::1] column_indptr,  # in
    double[:, ::1] out,  # out, (n_rows, n_rows); zero on entry
    int n_threads,
):
    """out[:] = X @ X.T, lower triangle.

    A row of the result takes one addition per pair of entries in the same column, and stays in
    the cache.
    """
    cdef Py_ssize_t n_rows = out.shape[0], i, k, l
    cdef double value
    cdef double* row
    # Later rows have more pairs: assigning rows in turn gives every thread an equal share.
    for i in prange(n_rows, nogil=True, num_threads=n_threads, schedule="static", chunksize=8):
        row = &out[i, 0]
        for k in range(indptr[i], indptr[i + 1]):
            value = data[k]
            for l in range(column_indptr[indices[k]], column_indptr[indices[k] + 1]):
                if column_indices[l] > i:
                    break
                row[column_indices[l]] = row[column_indices[l]] + value * column_data[l]


def scaled_block(
    const double[:, ::1] gram,  # in, lower triangle
    const Py_ssize_t[::1] rows,  # in, increasing
    const double[::1] scale,  # in, one per row of `rows`
    double[:, ::1] out,  # out, lower triangle
    int n_threads,
):
    """out[:] = scale[:, None] * gram[rows][:, rows] * scale, lower triangle."""
    cdef Py_ssize_t n = rows.shape[0], a, b
    for a in prange(n, nogil=True, num_threads=n_threads, schedule="static", chunksize=8):
        for b in range(a + 1):
            out[a, b] = scale[a] * scale[b] * gram[rows[a], rows[b]]


def csr_hessian_product(
    const floating[::1] data,  # in
    const index_t[::1] indices,  # in
    const index_t[::1] indptr,  # in
    const Py_ssize_t[::1] rows,  # in
    const double[::1] weight,  # in, one per row of `rows`
    const double[::1] v,  # in
    double[::1] image,  # out, one per row of `rows`
    double[:, ::1] partial,  # out, (n_threads, d); zero on entry
    int n_threads,
):
    """image[:] = weight * (X[rows] @ v); partial.sum(axis=0) == X[rows].T @ image.

    A block of rows is read twice, the second time from the cache. Row by row, v and the sums would
    evict each other.
    """
    cdef Py_ssize_t n_rows = rows.shape[0], t, first, last
    if data.shape[0] == 0 or n_rows == 0:
        image[:] = 0.0
        return
    for t in prange(n_threads, nogil=True, num_threads=n_threads, schedule="static"):
        first = n_rows * t // n_threads
        last = n_rows * (t + 1) // n_threads
        while first < last:
            _add_hessian_product(
                &data[0], &indices[0], &indptr[0], &rows[0] + first, &weight[0] + first, &v[0],
                &image[0] + first, &partial[t, 0], min(BLOCK, last - first),
            )
            first = first + BLOCK


cdef void _add_hessian_product(
    const floating* data, const index_t* indices, const index_t* indptr, const Py_ssize_t* rows,
    const double* weight, const double* v, double* image, double* out, Py_ssize_t n_rows,
) noexcept nogil:
    cdef Py_ssize_t k, first
    for k in range(n_rows):
        image[k] = weight[k] * _row_dot(data, indices, indptr + rows[k], v)
    for k in range(n_rows):
        first = indptr[rows[k]]
        scatter_add(image[k], data + first, indices + first, out, indptr[rows[k] + 1] - first)
