"""One problem over a Gram matrix, and what is asked of all problems at once."""

cdef enum:  # what the matrix of a problem holds
    NOTHING, FACTOR, INVERSE

ctypedef double* Vector
ctypedef const double* Given

ctypedef struct Problem:
    int n, n_outputs, n_active, n_changes_left, state
    bint fit_intercept, is_quadratic
    double C1, C2, D, border
    # Where flat arrays have its samples of all outputs, its outputs, and its samples.
    Py_ssize_t first, first_output, first_row
    const Py_ssize_t* rows  # of all samples, those of this problem
    Given all_values  # of all samples, of which there are n_all
    Py_ssize_t n_all
    Vector own_values  # room for those of its own rows; NULL where these are all samples
    Given K  # of its own rows
    # Of outputs, one after the other. Decision values are those without the intercept.
    Given target, orientation
    Vector theta, decision, aim, intercept, objective, new_intercept
    Vector solved  # one column more
    # Of samples. The active ones have positive curvatures.
    Given weight
    Vector curvature, factored_curvature, new_theta, new_decision, step
    # Of active samples, in the order of the matrix, which has n rows.
    int* active
    Vector root  # of curvatures
    Vector ones  # A^-1 r
    Vector matrix

ctypedef struct Request:  # flat arrays of all problems
    Given share  # of samples; NULL for all of the weight of each
    const int* fold  # of shape (n_repeats, n_samples)
    Py_ssize_t n_repeats, n_samples, n_flat
    int n_folds
    Given slope  # NULL where values are asked for
    Given total
    Vector values, by_aim, by_log_curvature, left, coef
    Vector work  # `room` for each thread
    int* members  # `most_rows` for each thread
    Py_ssize_t room, most_rows

# What is asked about one problem, answered in some thread; returns 0 on success.
ctypedef int (*Answer)(Problem*, const Request*, int) noexcept nogil

cdef int follow(Problem* p) noexcept nogil
cdef void solve_system(
    Problem* p, int n, Given values, Given totals, Vector out, Vector offsets
) noexcept nogil
cdef int adjoint(Problem* p, const Request* asked, int thread) noexcept nogil
cdef int leave_each_out(Problem* p, const Request* asked, int thread) noexcept nogil
cdef int leave_folds_out(Problem* p, const Request* asked, int thread) noexcept nogil
