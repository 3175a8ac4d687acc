/* What the stand-in libcuda.so.1 is made with: NVIDIA's own cuda.h, each form of a function by its name. */
#ifndef FAKEGPU_LIBCUDA_H
#define FAKEGPU_LIBCUDA_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#endif
