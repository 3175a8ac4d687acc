"""What the end of a job's output says: out of GPU memory, in the words of those who print it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.learn.output import LOOKED_AT_BYTES, last_bytes, says_out_of_memory

OUT_OF_MEMORY = [
    # PyTorch, before and after its exception had a name of its own; on AMD too
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.7 GiB",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total",
    "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)",
    "RuntimeError: CUDA out of memory. Tried to allocate 8.13 GiB (GPU 0; 10.76 GiB total capacity",
    "RuntimeError: CUDA error: out of memory",
    "torch.AcceleratorError: CUDA error: out of memory",
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.50 GiB",
    "RuntimeError: HIP error: out of memory",
    # JAX and XLA, old and new
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to",
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.99GiB",
    "RuntimeError: Resource exhausted: Failed to allocate request for 32.00MiB (33554432B) on",
    "RuntimeError: Resource exhausted: Out of memory while trying to allocate 600 bytes.",
    "ValueError: RESOURCE_EXHAUSTED: Attempting to allocate 1.2G. That was not possible.",
    # TensorFlow
    "OP_REQUIRES failed at conv_ops_3d.cc:399 : Resource exhausted: OOM when allocating tensor with"
    " shape[1,32,368] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator",
    "ResourceExhaustedError (see above for traceback): OOM when allocating tensor with shape[100]",
    "ResourceExhaustedError: {{function_node __wrapped__Mul_device_/job:localhost/replica:0/task:0/"
    "device:GPU:0}} failed to allocate memory [Op:Mul]",
    "InternalError: Failed copying input tensor from /job:localhost/replica:0/task:0/device:CPU:0"
    " to /job:localhost/replica:0/task:0/device:GPU:0 in order to run Identity: Dst tensor is not"
    " initialized.",
    "failed to allocate 2.0K (2048 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    # CUDA, its libraries, and what is built on them
    "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in"
    " CUDA_ERROR_OUT_OF_MEMORY",
    "pycuda._driver.MemoryError: cuMemAlloc failed: out of memory",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED",
    "RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate`",
    "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2"
    " 'out of memory'",
    "n1:55:55 [0] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'",
    "xgboost.core.XGBoostError: Memory allocation error on worker 0: std::bad_alloc:"
    " cudaErrorMemoryAllocation: out of memory",
    "RuntimeError: CUDA failed with error out of memory",  # CTranslate2
    # CuPy and RAPIDS
    "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 2,000,000 bytes (allocated so far",
    "cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 1073741824 bytes (total 9)",
    "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMemoryAllocation: out of memory",
    "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /include/rmm/mr/cuda.hpp:62",
    "rmm._lib.RMMError: RMM_ERROR_OUT_OF_MEMORY",
    # llama.cpp
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9866.00 MiB on device 1: cudaMalloc"
    " failed: out of memory",
    "CUDA error: out of memory\n  current device: 0, in function alloc at ggml-cuda.cu:347",
    # vLLM
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    "ValueError: Free memory on device (3.2/23.6 GiB) on startup is less than desired GPU memory"
    " utilization (0.9, 21.3 GiB).",
    # ONNX Runtime and TensorRT
    "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : bfc_arena.cc:376 void* onnxruntime::BFCArena::"
    "AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 4585",
    "onnxruntime::BFCArena::AllocateRawInternal Available memory of 0 is smaller than requested"
    " bytes of 135383040",
    "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 2: out of memory ; GPU=0 ; hostname=n1 ;",
    "[TRT] [E] 2: [virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: OutOfMemory (no",
]

OTHER = [
    "",
    "epoch 3: loss 0.2",
    "out of memory",
    "we were out of memory slots, so 3 were dropped",
    "warning: if CUDA runs out of memory, lower --batch",
    "    except torch.cuda.OutOfMemoryError:",
    "    except (RuntimeError, torch.cuda.OutOfMemoryError) as error:",
    "from torch.cuda import OutOfMemoryError",
    "    # retry with a smaller batch when CUDA out of memory",
    "torch.cuda.max_memory_allocated: 12 GiB",
    "MemoryError",
    "numpy.core._exceptions.MemoryError: Unable to allocate 74.5 GiB for an array",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "Out of memory: Killed process 4711 (python)",
    "oom-kill:constraint=CONSTRAINT_MEMCG",
    "grpc._channel._InactiveRpcError: StatusCode.RESOURCE_EXHAUSTED: Received message larger than",
    "google.api_core.exceptions.ResourceExhausted: 429 RESOURCE_EXHAUSTED: Quota exceeded",
    "ResourceExhaustedError: OOM when allocating tensor with shape[4096] and type float on"
    " /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "RuntimeError: CUDA error: unspecified launch failure",
    "RuntimeError: CUDA error: the MPS client has been terminated by the server",
    "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED",
    "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",
    "ggml_cuda_host_malloc: failed to allocate 1900,00 MiB of pinned memory: invalid argument",
    "[I:onnxruntime:log, bfc_arena.cc:306 AllocateRawInternal] Extending BFCArena for Cuda.",
    "psycopg2.errors.OutOfMemory: out of memory",
    "java.lang.OutOfMemoryError: Java heap space",
]


@pytest.mark.parametrize("text", OUT_OF_MEMORY)
def test_the_words_of_a_library_that_lacks_gpu_memory_are_known(text: str) -> None:
    assert says_out_of_memory(f"epoch 1\nTraceback:\n{text}\n".encode())


@pytest.mark.parametrize("text", OTHER)
def test_what_only_sounds_like_it_does_not_count(text: str) -> None:
    assert not says_out_of_memory(f"epoch 1\n{text}\ndone\n".encode())


def test_only_the_end_of_a_long_output_is_read_and_what_can_t_be_read_says_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 200_000 + b"RuntimeError: CUDA error: out of memory\n")
    end = last_bytes(str(path))
    assert len(end) == LOOKED_AT_BYTES and says_out_of_memory(end)
    assert last_bytes(str(tmp_path / "none")) == b""
    assert last_bytes(str(tmp_path)) == b""


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert says_out_of_memory(b"\xff\xfe\x00\x1b[31mCUDA error: out of memory\x1b[0m")
    assert not says_out_of_memory(bytes(range(256)) * 100)
