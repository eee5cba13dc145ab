/* Functions with this mark are compiled twice if the compiler supports it and the option vector_clones of
   the build is on: for any processor, and for those with vectors of four doubles. The right one is
   chosen when the library is loaded. This is C because Cython cannot express it. */
#ifndef OPTIMARGIN_VECTOR_CLONES_H
#define OPTIMARGIN_VECTOR_CLONES_H

#if !defined(OPTIMARGIN_NO_VECTOR_CLONES) && defined(__GNUC__) && !defined(__clang__) \
    && defined(__x86_64__) && defined(__linux__)
#define OPTIMARGIN_VECTOR_CLONES __attribute__((target_clones("arch=haswell", "default")))
#define OPTIMARGIN_INLINE static inline __attribute__((always_inline))
#else
#define OPTIMARGIN_VECTOR_CLONES
#define OPTIMARGIN_INLINE static inline
#endif

#endif
