/* Prefetch a cache line; does nothing if the compiler does not support it. */
#ifndef OPTIMARGIN_PREFETCH_H
#define OPTIMARGIN_PREFETCH_H

#if defined(__GNUC__)
#define OPTIMARGIN_PREFETCH(address) __builtin_prefetch(address)
#else
#define OPTIMARGIN_PREFETCH(address) ((void)(address))
#endif

#endif
