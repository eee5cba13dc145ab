"""A random generator whose state belongs to the caller (xorshift64*)."""

from libc.stdint cimport uint64_t


cdef inline uint64_t start(uint64_t seed) noexcept nogil:
    """Return a nonzero state for a seed; the constant spreads small seeds."""
    return (seed + 1) * <uint64_t> 0x9E3779B97F4A7C15


cdef inline Py_ssize_t draw(uint64_t* state, Py_ssize_t n) noexcept nogil:
    """Return a random integer below n."""
    state[0] ^= state[0] >> 12
    state[0] ^= state[0] << 25
    state[0] ^= state[0] >> 27
    return <Py_ssize_t> (((state[0] * <uint64_t> 0x2545F4914F6CDD1D) >> 33) % <uint64_t> n)


cdef inline void shuffle(uint64_t* state, Py_ssize_t* order, Py_ssize_t n) noexcept nogil:
    """Permute the first n entries of `order` at random."""
    cdef Py_ssize_t k, other, kept
    for k in range(n - 1):
        other = k + draw(state, n - k)
        kept = order[k]
        order[k] = order[other]
        order[other] = kept
