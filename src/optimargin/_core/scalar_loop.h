/* In the body of a loop: keeps compilers from vectorising it. Vectors of numbers gathered one by one
   take longer to put together than they save. */
#ifndef OPTIMARGIN_SCALAR_LOOP_H
#define OPTIMARGIN_SCALAR_LOOP_H

#if defined(__GNUC__)
#define OPTIMARGIN_SCALAR_LOOP() __asm__ volatile("")
#else
#define OPTIMARGIN_SCALAR_LOOP() ((void)0)
#endif

#endif
