"""How many threads the compiled loops may use."""

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    static int optimargin_max_threads(void) { return omp_get_max_threads(); }
    #else
    static int optimargin_max_threads(void) { return 1; }
    #endif
    """
    int optimargin_max_threads() nogil


def max_threads():
    """Return the limit set by OMP_NUM_THREADS and threadpoolctl; 1 in a build without OpenMP."""
    return optimargin_max_threads()
