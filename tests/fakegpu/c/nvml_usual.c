/* What monitors ask beside Stoker's questions, and what every GPU answers. */
#include "session.h"

#include <string.h>

#define BEGIN(name, handle, pointer)                                    \
    struct fg_state *state;                                             \
    struct place place;                                                 \
    int lock;                                                           \
    if ((pointer) == NULL)                                              \
        return NVML_ERROR_INVALID_ARGUMENT;                             \
    nvmlReturn_t result = begin_on(name, handle, &state, &place, &lock); \
    if (result != NVML_SUCCESS)                                         \
        return result

static nvmlReturn_t idle_engine(const char *function, nvmlDevice_t handle, unsigned *percent,
                                unsigned *period_us)
{
    BEGIN(function, handle, percent);
    if (place.mig >= 0 || period_us == NULL)
        return end(lock, period_us ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT);
    *percent = 0;
    *period_us = 167000;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t handle, unsigned *percent,
                                                    unsigned *period_us)
{
    return idle_engine("nvmlDeviceGetEncoderUtilization", handle, percent, period_us);
}

PUBLIC nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t handle, unsigned *percent,
                                                    unsigned *period_us)
{
    return idle_engine("nvmlDeviceGetDecoderUtilization", handle, percent, period_us);
}

/* The window through which the CPU sees a device's memory. */
PUBLIC nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t handle, nvmlBAR1Memory_t *window)
{
    BEGIN("nvmlDeviceGetBAR1MemoryInfo", handle, window);
    window->bar1Total = 256ull << 20;
    window->bar1Used = 4ull << 20;
    window->bar1Free = window->bar1Total - window->bar1Used;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t handle, nvmlComputeMode_t *mode)
{
    BEGIN("nvmlDeviceGetComputeMode", handle, mode);
    *mode = (nvmlComputeMode_t)state->devices[place.device].compute_mode;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t handle, nvmlEnableState_t *mode)
{
    BEGIN("nvmlDeviceGetPersistenceMode", handle, mode);
    *mode = NVML_FEATURE_ENABLED;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t handle, nvmlPstates_t *level)
{
    BEGIN("nvmlDeviceGetPerformanceState", handle, level);
    *level = fg_use_sum(state, place.device, -1) > 0 ? NVML_PSTATE_0 : NVML_PSTATE_8;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int *major, int *minor)
{
    BEGIN("nvmlDeviceGetCudaComputeCapability", handle, major);
    if (minor == NULL)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    *major = 8;
    *minor = 0;
    return end(lock, NVML_SUCCESS);
}

/* What each process used of the device, newest sample only. */
PUBLIC nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t handle,
                                                    nvmlProcessUtilizationSample_t *samples,
                                                    unsigned *count, unsigned long long after)
{
    BEGIN("nvmlDeviceGetProcessUtilization", handle, count);
    if (place.mig >= 0)
        return end(lock, NVML_ERROR_NOT_SUPPORTED);
    unsigned room = *count, found = 0;
    for (int i = 0; i < FG_PROCESSES; i++) {
        const struct fg_process *process = &state->processes[i];
        if (!process->present || process->device != place.device || process->use_percent == 0)
            continue;
        if (samples != NULL && found < room) {
            memset(&samples[found], 0, sizeof *samples);
            samples[found].pid = process->pid;
            samples[found].timeStamp = after + 1;
            samples[found].smUtil = process->use_percent > 100 ? 100 : process->use_percent;
        }
        found++;
    }
    *count = found;
    if (samples == NULL || found > room)
        return end(lock, NVML_ERROR_INSUFFICIENT_SIZE);
    return end(lock, found == 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS);
}
