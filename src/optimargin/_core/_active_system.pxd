cdef class ActiveSystem:
    cdef readonly object K, weight, side
    cdef readonly int n_active
    cdef int n
    cdef double C1, C2
    cdef const double[:, ::1] _K
    cdef const double[::1] _weight
    cdef int[::1] _side, _active, _place
    cdef double[::1] _matrix, _root
    # The state that was factorised, and how the current state differs from it.
    cdef bint _factored
    cdef int n_slots, n_used, n_changes_max
    cdef double _factored_C1, _factored_C2
    cdef int[::1] _factored_side, _slot_row, _used, _pivots
    cdef int[:, ::1] _slot_of
    cdef double[::1] _slot_root, _small, _packed
    cdef double[:, ::1] _columns, _products

    cdef double _root_of(self, int i, int side) noexcept nogil
    cdef int _follow(self) noexcept nogil
    cdef int _factor(self) noexcept nogil
    cdef bint _note_changes(self) noexcept nogil
    cdef int _slot(self, int kind, int row) noexcept nogil
    cdef void _complete_slots(self, int first) noexcept nogil
    cdef void _solve_system(self, double* vectors, int n_vectors) noexcept nogil
