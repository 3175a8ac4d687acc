/* libcuda.so.1: CUDA's driver interface, as far as a program needs it to have memory on a device.
 *
 * What a process allocates here is in the shared state, so NVML tells of it as that pid's. Contexts are
 * the devices' primary ones; a device that is not visible to the process does not exist for it.
 *
 * Beside the names of functions, rules know what can be wrong with a machine: "beyond" is what an
 * allocation for which there is no room answers, "stays" lets memory outlive its process, and "only one"
 * shows one device, whatever is visible.
 */
#define _GNU_SOURCE
#include "libcuda.h"
#include "mps_client.h"
#include "state.h"
#include "visible.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define ALLOCATIONS 4096
#define CONTEXT_BYTES (300ull << 20) /* What a context of its own takes, before any allocation. */

struct CUctx_st { int ordinal; int users; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *path;
static struct fg_state *state;
static struct visible devices[FG_DEVICES];
static struct CUctx_st contexts[FG_DEVICES];
static int device_count = -1; /* before cuInit */
static struct { CUdeviceptr at; size_t bytes; int ordinal; } allocations[ALLOCATIONS];
static CUdeviceptr next_address = 0x7f0000000000ull;
static _Thread_local CUcontext current;
static int mps = -1; /* the connection to the server, if this is a client of one */

static int is_device(CUdevice device)
{
    return device >= 0 && device < device_count;
}

static CUresult health(const struct visible *at)
{
    const struct fg_device *device = &state->devices[at->device];
    if (!state->running || !device->present)
        return CUDA_ERROR_NO_DEVICE;
    return device->fault ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static int is_exclusive_to_another(const struct visible *at)
{
    const struct fg_device *device = &state->devices[at->device];
    for (int i = 0; device->compute_mode == FG_EXCLUSIVE && i < FG_PROCESSES; i++)
        if (state->processes[i].present && state->processes[i].device == at->device &&
            state->processes[i].pid != (uint32_t)getpid() &&
            fg_start_time((pid_t)state->processes[i].pid) != 0)
            return 1;
    return device->compute_mode == FG_PROHIBITED;
}

/* More (or less) memory of a device for this process; with the state's lock held. */
static CUresult change(int ordinal, int64_t bytes)
{
    const struct visible *at = &devices[ordinal];
    fg_drop_dead(state);
    CUresult result = health(at);
    if (result != CUDA_SUCCESS)
        return result;
    if (bytes > 0 && (uint64_t)bytes > fg_free(state, at->device, at->mig)) {
        const struct fg_rule *rule = fg_rule_for(state, "beyond", at->device);
        return rule == NULL ? CUDA_ERROR_OUT_OF_MEMORY : (CUresult)rule->code;
    }
    struct fg_process *mine = fg_entry(state, (uint32_t)getpid(), at->device, at->mig);
    if (mine == NULL)
        return CUDA_ERROR_UNKNOWN;
    mine->bytes += (uint64_t)bytes;
    mine->mps = mps >= 0;
    if (fg_rule_for(state, "stays", at->device) != NULL)
        mine->start_time = 0;
    if (mine->bytes == 0)
        mine->present = 0;
    return CUDA_SUCCESS;
}

static CUresult with_state(int ordinal, int64_t bytes)
{
    int held = fg_lock(path);
    if (held < 0)
        return CUDA_ERROR_UNKNOWN;
    CUresult result = change(ordinal, bytes);
    fg_unlock(held);
    return result;
}

PUBLIC CUresult cuInit(unsigned flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    path = getenv("FAKEGPU_STATE");
    if (state == NULL && path != NULL)
        state = fg_map(path);
    int held = state == NULL ? -1 : fg_lock(path);
    CUresult result = CUDA_ERROR_NO_DEVICE;
    if (held >= 0) {
        if (device_count < 0 && state->running) {
            const char *list = getenv("CUDA_VISIBLE_DEVICES");
            device_count = fg_visible(state, list, getenv("CUDA_DEVICE_ORDER"), devices);
            if (device_count > 1 && fg_rule_for(state, "only one", -1) != NULL)
                device_count = 1;
        }
        result = device_count > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
        fg_unlock(held);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

PUBLIC CUresult cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = state == NULL ? 0 : (int)state->cuda_version;
    return CUDA_SUCCESS;
}

PUBLIC CUresult cuDeviceGetCount(int *count)
{
    if (device_count < 0)
        return CUDA_ERROR_NOT_INITIALIZED;
    *count = device_count;
    return CUDA_SUCCESS;
}

PUBLIC CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    if (device_count < 0)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!is_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

/* A UUID as 16 bytes, out of `GPU-` and hexadecimal digits. */
static void read_uuid(const char *text, CUuuid *uuid)
{
    memset(uuid, 0, sizeof *uuid);
    text += strcspn(text, "-");
    for (size_t digits = 0; *text != 0 && digits < 2 * sizeof uuid->bytes; text++) {
        char one[2] = {*text, 0}, *end;
        unsigned long value = strtoul(one, &end, 16);
        if (*end != 0)
            continue;
        uuid->bytes[digits / 2] = (char)((unsigned char)uuid->bytes[digits / 2] << 4 | value);
        digits++;
    }
}

static CUresult get_uuid(CUuuid *uuid, CUdevice device, int tells_instance)
{
    if (!is_device(device) || uuid == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    int held = fg_lock(path);
    const struct fg_rule *rule = fg_rule_for(state, "cuDeviceGetUuid", devices[device].device);
    if (rule != NULL) {
        fg_unlock(held);
        return (CUresult)rule->code;
    }
    const struct fg_device *d = &state->devices[devices[device].device];
    int mig = tells_instance ? devices[device].mig : -1;
    read_uuid(mig < 0 ? d->uuid : d->migs[mig].uuid, uuid);
    fg_unlock(held);
    return CUDA_SUCCESS;
}

/* The first form gives the whole device's, also for an instance. */
PUBLIC CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return get_uuid(uuid, device, 0);
}

PUBLIC CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return get_uuid(uuid, device, 1);
}

static CUresult first_context(CUdevice device)
{
    const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
    double share;
    if (mps < 0 && pipes != NULL && *pipes != 0)
        mps = mps_connect(pipes, &share);
    if (mps == -2)
        return CUDA_ERROR_MPS_SERVER_NOT_READY;
    if (mps < 0 && is_exclusive_to_another(&devices[device]))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    return with_state(device, CONTEXT_BYTES);
}

PUBLIC CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    if (!is_device(device) || context == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_SUCCESS;
    if (contexts[device].users == 0)
        result = first_context(device);
    if (result == CUDA_SUCCESS) {
        contexts[device].ordinal = device;
        contexts[device].users++;
        *context = &contexts[device];
    }
    pthread_mutex_unlock(&lock);
    return result;
}

PUBLIC CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    if (!is_device(device) || contexts[device].users == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_SUCCESS;
    if (--contexts[device].users == 0) {
        int64_t bytes = CONTEXT_BYTES;
        for (int i = 0; i < ALLOCATIONS; i++)
            if (allocations[i].at != 0 && allocations[i].ordinal == device) {
                bytes += (int64_t)allocations[i].bytes;
                allocations[i].at = 0;
            }
        result = with_state(device, -bytes);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

PUBLIC CUresult cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    if (current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    const struct visible *at = &devices[current->ordinal];
    const struct fg_device *device = &state->devices[at->device];
    int held = fg_lock(path);
    fg_drop_dead(state);
    *free_bytes = fg_free(state, at->device, at->mig);
    *total = at->mig < 0 ? device->total : device->migs[at->mig].total;
    fg_unlock(held);
    return CUDA_SUCCESS;
}

PUBLIC CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    if (current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (bytes == 0 || pointer == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < ALLOCATIONS; i++)
        if (allocations[i].at == 0) {
            result = with_state(current->ordinal, (int64_t)bytes);
            if (result == CUDA_SUCCESS) {
                *pointer = allocations[i].at = next_address;
                allocations[i].bytes = bytes;
                allocations[i].ordinal = current->ordinal;
                next_address += (bytes + 0x1fffff) & ~0x1fffffull;
            }
            break;
        }
    pthread_mutex_unlock(&lock);
    return result;
}

PUBLIC CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    pthread_mutex_lock(&lock);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; pointer != 0 && i < ALLOCATIONS; i++)
        if (allocations[i].at == pointer) {
            allocations[i].at = 0;
            result = with_state(allocations[i].ordinal, -(int64_t)allocations[i].bytes);
            break;
        }
    pthread_mutex_unlock(&lock);
    return result;
}

/* Nothing is written: there is no memory. But this process computes, and its device says so. */
PUBLIC CUresult cuMemsetD8_v2(CUdeviceptr pointer, unsigned char value, size_t count)
{
    (void)value, (void)count;
    if (current == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (pointer == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const struct visible *at = &devices[current->ordinal];
    int held = fg_lock(path);
    CUresult result = health(at);
    struct fg_process *mine = fg_entry(state, (uint32_t)getpid(), at->device, at->mig);
    if (mine != NULL && mine->use_percent == 0)
        mine->use_percent = 10;
    fg_unlock(held);
    return result;
}

PUBLIC CUresult cuCtxSynchronize(void)
{
    return current == NULL ? CUDA_ERROR_INVALID_CONTEXT : health(&devices[current->ordinal]);
}

PUBLIC CUresult cuGetErrorName(CUresult error, const char **text)
{
    static const struct { CUresult code; const char *name; } names[] = {
        {CUDA_SUCCESS, "CUDA_SUCCESS"},
        {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
        {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
        {CUDA_ERROR_MPS_SERVER_NOT_READY, "CUDA_ERROR_MPS_SERVER_NOT_READY"},
        {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
    };
    *text = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == error)
            *text = names[i].name;
    return *text == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
