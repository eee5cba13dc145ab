"""The factor of an active set, kept while samples enter and leave it."""

cdef enum:  # what the matrix of a problem holds
    NOTHING = 0
    FACTOR = 1
    INVERSE = 2

ctypedef struct Problem:
    int n, n_outputs, n_active, n_iter, state
    bint fit_intercept, is_quadratic, is_stale
    double C1, C2, D, border
    const double* K  # the value of samples i and j is K[index[i] * stride + index[j]]
    Py_ssize_t stride
    const Py_ssize_t* index
    const Py_ssize_t* rows  # of all samples, those of this problem
    # Outputs one after the other; weights are those of all outputs.
    const double* target
    const double* orientation
    const double* weight
    double* theta
    double* decision  # without the intercept
    double* aim
    double* intercept
    double* objective
    double* curvature
    int* side
    int* active
    int* place
    Py_ssize_t* column  # `index` of the active samples
    double* matrix
    double* root  # of the active samples
    double* ones  # A^-1 r
    double* scale  # of all samples, zero off the active set
    double* solved
    double* packed
    double* new_theta
    double* new_decision
    double* new_intercept
    double* step
    # The set that was factorised, and how the current one differs from it.
    int* factored_side
    double factored_C1, factored_C2
    int n_slots, n_used, n_changes_max, most_slots
    int* slot_of
    int* slot_row
    int* used
    int* pivots
    double* slot_root
    double* columns
    double* products
    double* small


cdef double root_of(Problem* p, int i, int side) noexcept nogil
cdef int follow(Problem* p) noexcept nogil
cdef void solve_system(Problem* p, double* vectors, int n_vectors) noexcept nogil
cdef int invert(Problem* p) noexcept nogil
cdef int settle(Problem* p) noexcept nogil
