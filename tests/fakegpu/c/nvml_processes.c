/* The processes on a device, in the three forms that the interface has had. */
#include "session.h"

#include <stddef.h>

static int is_listed(const struct fg_process *process, const struct place *place, unsigned kind,
                     int only_mps)
{
    return process->present && process->device == place->device &&
           (place->mig < 0 || process->mig == place->mig) && process->kind == kind &&
           (!only_mps || process->mps);
}

static nvmlReturn_t list(const char *function, nvmlDevice_t handle, unsigned kind, int only_mps,
                         unsigned *count, nvmlProcessInfo_v1_t *first, nvmlProcessInfo_t *later)
{
    struct fg_state *state;
    struct place place;
    int lock;
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin_on(function, handle, &state, &place, &lock);
    if (result != NVML_SUCCESS)
        return result;
    const struct fg_device *device = &state->devices[place.device];
    unsigned room = *count, found = 0;
    for (int i = 0; i < FG_PROCESSES; i++) {
        const struct fg_process *process = &state->processes[i];
        if (!is_listed(process, &place, kind, only_mps))
            continue;
        if (found < room && (first != NULL || later != NULL)) {
            unsigned long long used = device->hides_process_memory || process->hides_memory
                                          ? (unsigned long long)NVML_VALUE_NOT_AVAILABLE
                                          : process->bytes;
            int mig = process->mig;
            if (first != NULL)
                first[found] = (nvmlProcessInfo_v1_t){process->pid, used};
            else
                later[found] = (nvmlProcessInfo_t){
                    process->pid, used, mig < 0 ? ~0u : device->migs[mig].gpu_instance,
                    mig < 0 ? ~0u : device->migs[mig].compute_instance};
        }
        found++;
    }
    *count = found;
    return end(lock, found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

#define FORMS(name, kind, only_mps)                                                          \
    PUBLIC nvmlReturn_t name(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos) \
    {                                                                                        \
        return list(#name, device, kind, only_mps, count, infos, NULL);                      \
    }                                                                                        \
    PUBLIC nvmlReturn_t name##_v2(nvmlDevice_t device, unsigned *count,                      \
                                  nvmlProcessInfo_t *infos)                                  \
    {                                                                                        \
        return list(#name, device, kind, only_mps, count, NULL, infos);                      \
    }                                                                                        \
    PUBLIC nvmlReturn_t name##_v3(nvmlDevice_t device, unsigned *count,                      \
                                  nvmlProcessInfo_t *infos)                                  \
    {                                                                                        \
        return list(#name, device, kind, only_mps, count, NULL, infos);                      \
    }

FORMS(nvmlDeviceGetComputeRunningProcesses, FG_COMPUTE, 0)
FORMS(nvmlDeviceGetGraphicsRunningProcesses, FG_GRAPHICS, 0)
FORMS(nvmlDeviceGetMPSComputeRunningProcesses, FG_COMPUTE, 1)
