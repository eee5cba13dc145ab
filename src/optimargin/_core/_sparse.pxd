"""Operations on one sparse row; shared by the loops over CSR data."""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t

cdef extern from "scalar_loop.h" nogil:
    void scalar_loop "OPTIMARGIN_SCALAR_LOOP"()

ctypedef fused index_t:
    int32_t
    int64_t


cdef inline double gather_dot(
    const floating* data, const index_t* indices, const double* w, Py_ssize_t length
) noexcept nogil:
    """Return sum(data * w[indices]).

    Four sums at a time, because each addition would have to wait for the previous one.
    """
    cdef double a = 0.0, b = 0.0, c = 0.0, d = 0.0
    cdef Py_ssize_t k = 0
    while k + 3 < length:
        scalar_loop()
        a += data[k] * w[indices[k]]
        b += data[k + 1] * w[indices[k + 1]]
        c += data[k + 2] * w[indices[k + 2]]
        d += data[k + 3] * w[indices[k + 3]]
        k += 4
    while k < length:
        a += data[k] * w[indices[k]]
        k += 1
    return (a + b) + (c + d)


cdef inline void scatter_add(
    double scale, const floating* data, const index_t* indices, double* w, Py_ssize_t length
) noexcept nogil:
    """w[indices] += scale * data; no index twice.

    Four at a time, because loads would have to wait for earlier stores: the processor does not
    know that the addresses differ.
    """
    cdef double a, b, c, d
    cdef Py_ssize_t k = 0
    while k + 3 < length:
        scalar_loop()
        a = w[indices[k]] + scale * data[k]
        b = w[indices[k + 1]] + scale * data[k + 1]
        c = w[indices[k + 2]] + scale * data[k + 2]
        d = w[indices[k + 3]] + scale * data[k + 3]
        w[indices[k]] = a
        w[indices[k + 1]] = b
        w[indices[k + 2]] = c
        w[indices[k + 3]] = d
        k += 4
    while k < length:
        w[indices[k]] += scale * data[k]
        k += 1
