"""What the end of a job's output says about how it failed.

Only whole phrases of the frameworks count: a training that merely prints the words "out of memory"
in its log must not be run again for that.
"""

from __future__ import annotations

import os
import re

LOOKED_AT_BYTES = 64 * 1024

# As printed by PyTorch, by JAX and XLA, by TensorFlow, by CUDA itself and its libraries, by ROCm.
_OUT_OF_MEMORY = re.compile(
    rb"torch\.(cuda\.)?OutOfMemoryError"
    rb"|(CUDA|HIP) out of memory\b"
    rb"|(CUDA|HIP) error: out of memory\b"
    rb"|RESOURCE_EXHAUSTED: (Out of memory|Failed to allocate)"
    rb"|ResourceExhaustedError\b[^\n]*\bOOM when allocating"
    rb"|OOM when allocating tensor\b"
    rb"|XlaRuntimeError: RESOURCE_EXHAUSTED"
    rb"|\bCUDA_ERROR_OUT_OF_MEMORY\b"
    rb"|\bcudaErrorMemoryAllocation\b"
    rb"|\bhipErrorOutOfMemory\b"
    rb"|\bCUBLAS_STATUS_ALLOC_FAILED\b"
    rb"|\bCUDNN_STATUS_ALLOC_FAILED\b"
    rb"|\bCUFFT_ALLOC_FAILED\b"
    rb"|\bNCCL\b[^\n]*\bout of memory\b"
    rb"|cuMemAlloc(Async|_v2)?\b[^\n]*\bout of memory\b"
)


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
