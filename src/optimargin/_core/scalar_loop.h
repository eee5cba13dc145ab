/* In the body of a loop: keeps compilers from vectorising it. Gathering numbers one by one into
   vectors takes longer than it saves. */
#ifndef OPTIMARGIN_SCALAR_LOOP_H
#define OPTIMARGIN_SCALAR_LOOP_H

#if defined(__GNUC__)
#define OPTIMARGIN_SCALAR_LOOP() __asm__ volatile("")
#else
#define OPTIMARGIN_SCALAR_LOOP() ((void)0)
#endif

#endif
