/* Each framework's own form of CUDA's errors, on stderr, as far as a reader of logs looks at it. */
#include "failures.h"

#include <stdio.h>
#include <string.h>

static const char *amount(uint64_t bytes, char *text, size_t length)
{
    if (bytes >= 1ull << 30)
        snprintf(text, length, "%.2f GiB", (double)bytes / (1ull << 30));
    else
        snprintf(text, length, "%.2f MiB", (double)bytes / (1ull << 20));
    return text;
}

static void traceback(const char *line)
{
    fprintf(stderr, "Traceback (most recent call last):\n  File \"train.py\", line 57, in <module>\n"
                    "    %s\n", line);
}

void say_out_of_memory(const char *framework, int ordinal, uint64_t wanted, uint64_t total,
                       uint64_t free, uint64_t mine)
{
    char a[32], b[32], c[32], d[32];
    if (strcmp(framework, "torch") == 0) {
        traceback("loss.backward()");
        fprintf(stderr,
                "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate %s. GPU %d has a "
                "total capacity of %s of which %s is free. Of the allocated memory %s is allocated "
                "by PyTorch.\n",
                amount(wanted, a, sizeof a), ordinal, amount(total, b, sizeof b),
                amount(free, c, sizeof c), amount(mine, d, sizeof d));
    } else if (strcmp(framework, "tensorflow") == 0) {
        traceback("model.fit(data)");
        fprintf(stderr,
                "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution "
                "error:\n\nOOM when allocating tensor with shape[%llu] and type float on "
                "/job:localhost/replica:0/task:0/device:GPU:%d by allocator GPU_%d_bfc\n",
                (unsigned long long)(wanted / 4), ordinal, ordinal);
    } else if (strcmp(framework, "jax") == 0) {
        traceback("state = update(state, batch)");
        fprintf(stderr,
                "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while "
                "trying to allocate %llu bytes.\n",
                (unsigned long long)wanted);
    } else if (strcmp(framework, "cublas") == 0) {
        traceback("out = layer(x)");
        fprintf(stderr, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
                        "`cublasCreate(handle)`\n");
    } else {
        traceback("out = conv(x)");
        fprintf(stderr, "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED\n");
    }
}

void say_cuda_error(const char *framework, const char *words)
{
    traceback("model.to(device)");
    if (strcmp(framework, "jax") == 0)
        fprintf(stderr, "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA error: %s\n", words);
    else
        fprintf(stderr, "RuntimeError: CUDA error: %s\n", words);
}
