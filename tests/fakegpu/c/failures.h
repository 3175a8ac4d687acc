/* The last words of a program whose GPU failed it. */
#ifndef FAKEGPU_FAILURES_H
#define FAKEGPU_FAILURES_H

#include <stdint.h>

void say_out_of_memory(const char *framework, int ordinal, uint64_t wanted, uint64_t total,
                       uint64_t free, uint64_t mine);
void say_cuda_error(const char *framework, const char *words);

#endif
