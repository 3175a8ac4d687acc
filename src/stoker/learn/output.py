"""What the end of a job's output says about how it failed.

Only whole phrases of the frameworks count: a training that merely prints the words "out of memory"
in its log must not be run again for that.
"""

from __future__ import annotations

import os
import re

LOOKED_AT_BYTES = 64 * 1024

# Each is the form in which a library tells that an allocation on a GPU has failed: as a message,
# and not as a line of source in a traceback, nor of the host's own memory.
_FORMS = (
    # PyTorch: its exception with a message, which an `except` clause in a traceback has not.
    rb"torch\.(cuda\.)?OutOfMemoryError: \S",
    rb"Error: (CUDA|HIP|XPU) out of memory\b",
    rb"(CUDA|HIP|XPU) out of memory\. Tried to allocate",
    rb"(CUDA|HIP) error: out of memory\b",
    # XLA, so JAX and TensorFlow.
    rb"(RESOURCE_EXHAUSTED|Resource exhausted): (Out of memory|Failed to allocate|Ran out of memory"
    rb"|Attempting to (allocate|reserve)|Error allocating device buffer|Error loading program)",
    rb"(Xla|Jax)RuntimeError: RESOURCE_EXHAUSTED\b",
    # TensorFlow; it says the same of the host's memory, with the name of that device.
    rb"OOM when allocating tensor\b(?![^\n]*(device:CPU|allocator cpu))",
    rb"device:GPU:\d+\}\} failed to allocate memory\b",
    rb"(InternalError|GPU:\d+)[^\n]*\bDst tensor is not initialized\b",
    # CUDA and ROCm, by the names of their errors or in words.
    rb"\bCUDA_ERROR_OUT_OF_MEMORY\b",
    rb"\bcudaErrorMemoryAllocation\b",
    rb"\bhipErrorOutOfMemory\b",
    rb"\b(cudaMalloc|hipMalloc)\w*\b[^\n]*\bout of memory\b",
    rb"\bcuMemAlloc\w*\b[^\n]*\bout of memory\b",
    rb"\b(CUDA|Cuda) failure (2: )?(2 )?'?out of memory\b",
    rb"\bCUDA failed with error out of memory\b",
    rb"\bNCCL\b[^\n]*\bout of memory\b",
    # Their libraries.
    rb"\b(CU|HIP)(BLAS|SPARSE|SOLVER|RAND)_STATUS_(ALLOC|ALLOCATION)_FAILED\b",
    rb"\bCUDNN_STATUS_ALLOC_FAILED\b",
    rb"\bCUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED\b",
    rb"\bCUFFT_ALLOC_FAILED\b",
    rb"\brocblas_status_memory_error\b",
    # CuPy, RAPIDS, ONNX Runtime, TensorRT, vLLM.
    rb"\bcupy\.cuda\.memory\.OutOfMemoryError: \S",
    rb"\bstd::bad_alloc: out_of_memory\b",
    rb"\bRMM_ERROR_OUT_OF_MEMORY\b",
    rb"\bBFCArena::AllocateRawInternal\b[^\n]*(Failed to allocate memory for requested buffer"
    rb"|is smaller than requested bytes)",
    rb"\bError Code 2: OutOfMemory\b",
    rb"\bNo available memory for the cache blocks\. Try",
    rb"\bFree memory on device\b[^\n]*\bis less than desired GPU memory utilization\b",
)
_OUT_OF_MEMORY = re.compile(b"|".join(b"(?:%s)" % form for form in _FORMS))


def says_out_of_memory(output: bytes) -> bool:
    """True if the output says that a GPU's memory was not enough."""
    return _OUT_OF_MEMORY.search(output) is not None


def last_bytes(path: str, most: int = LOOKED_AT_BYTES) -> bytes:
    """The end of a file; nothing where it can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        size = os.fstat(fd).st_size
        return os.pread(fd, most, max(0, size - most))
    except OSError:
        return b""
    finally:
        os.close(fd)
