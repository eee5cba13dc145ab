/* Ask for a cache line ahead of its use; nothing where the compiler has no word for it. */
#ifndef OPTIMARGIN_PREFETCH_H
#define OPTIMARGIN_PREFETCH_H

#if defined(__GNUC__)
#define OPTIMARGIN_PREFETCH(address) __builtin_prefetch(address)
#else
#define OPTIMARGIN_PREFETCH(address) ((void)(address))
#endif

#endif
