/* How devices are connected, and the events that tell of critical errors (XIDs). */
#define _GNU_SOURCE
#include "session.h"

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static nvmlReturn_t begin_pair(const char *function, nvmlDevice_t one, nvmlDevice_t other,
                               struct fg_state **state, struct place *a, struct place *b, int *lock)
{
    if (!place_of(other, b))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin_on(function, one, state, a, lock);
    if (result == NVML_SUCCESS && (*state)->devices[b->device].fault != 0)
        return end(*lock, (*state)->devices[b->device].fault);
    return result;
}

PUBLIC nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                                        nvmlGpuTopologyLevel_t *level)
{
    struct fg_state *state;
    struct place a, b;
    int lock;
    if (level == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin_pair("nvmlDeviceGetTopologyCommonAncestor", one, other, &state, &a,
                                     &b, &lock);
    if (result)
        return result;
    *level = state->topology[a.device][b.device];
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t capability,
                                           nvmlGpuP2PStatus_t *status)
{
    struct fg_state *state;
    struct place a, b;
    int lock;
    if (status == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin_pair("nvmlDeviceGetP2PStatus", one, other, &state, &a, &b, &lock);
    if (result)
        return result;
    int linked = state->nvlinks[a.device][b.device] > 0;
    *status = capability != NVML_P2P_CAPS_INDEX_NVLINK || linked ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned link, nvmlEnableState_t *active)
{
    struct fg_state *state;
    struct place place;
    int lock;
    if (active == NULL || link >= NVML_NVLINK_MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin_on("nvmlDeviceGetNvLinkState", handle, &state, &place, &lock);
    if (result)
        return result;
    unsigned links = 0;
    for (int i = 0; i < FG_DEVICES; i++)
        links += state->nvlinks[place.device][i];
    *active = link < links;
    return end(lock, links == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS);
}

/* An event set belongs to one process, and tells of what happened after a device was registered. */
struct nvmlEventSet_st { unsigned devices; unsigned seen; };

PUBLIC nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    struct fg_state *state;
    int lock;
    if (set == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin("nvmlEventSetCreate", NO_DEVICE, &state, &lock);
    if (result)
        return result;
    *set = calloc(1, sizeof **set);
    (*set)->seen = state->xid_count;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long types,
                                             nvmlEventSet_t set)
{
    struct fg_state *state;
    struct place place;
    int lock;
    if (set == NULL || (types & ~nvmlEventTypeXidCriticalError) != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin_on("nvmlDeviceRegisterEvents", handle, &state, &place, &lock);
    if (result)
        return result;
    if (types & nvmlEventTypeXidCriticalError)
        set->devices |= 1u << place.device;
    return end(lock, NVML_SUCCESS);
}

static int index_of(int slot)
{
    for (int index = 0; index < device_count(); index++)
        if (slot_at(index) == slot)
            return index;
    return -1;
}

PUBLIC nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                        unsigned timeout_ms)
{
    if (set == NULL || data == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned waited_ms = 0;; waited_ms += 5) {
        struct fg_state *state;
        int lock;
        nvmlReturn_t result = begin("nvmlEventSetWait", NO_DEVICE, &state, &lock);
        if (result)
            return result;
        while (set->seen != state->xid_count) {
            if (state->xid_count - set->seen > FG_XIDS)
                set->seen = state->xid_count - FG_XIDS;
            const struct fg_xid *event = &state->xids[set->seen++ % FG_XIDS];
            int index = index_of(event->device);
            if (index < 0 || !(set->devices & 1u << event->device))
                continue;
            *data = (nvmlEventData_t){handle_of(index, -1), nvmlEventTypeXidCriticalError,
                                      event->xid, ~0u, ~0u};
            return end(lock, NVML_SUCCESS);
        }
        end(lock, NVML_SUCCESS);
        if (waited_ms >= timeout_ms)
            return NVML_ERROR_TIMEOUT;
        struct timespec slice = {0, 5000000};
        nanosleep(&slice, NULL);
    }
}

PUBLIC nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    free(set);
    return NVML_SUCCESS;
}
