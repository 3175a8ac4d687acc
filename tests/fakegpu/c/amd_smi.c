/* libamd_smi.so: AMD's interface, as far as Stoker asks it, over the same state as NVIDIA's stand-in.
 *
 * The header is written back out of the package `amdsmi` (amd_header.py). Each GPU is a socket with one
 * processor. A device's fault is a status of AMD's here; processes that are another user's have no name,
 * and then the answer is NO_PERM although the list is filled, as the real library has it.
 */
#define _GNU_SOURCE
#include "amdsmi.h"
#include "state.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define XGMI_HOPS 1

static pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;
static int users;
static const char *path;
static struct fg_state *state;
static int slots[FG_DEVICES], slot_count;
static char handles[FG_DEVICES]; /* Their addresses are the handles, of socket and processor alike. */

static uint32_t late_or_wrong(const char *function, int device)
{
    for (int waited_ms = 0;; waited_ms += 10) {
        int lock = fg_lock(path);
        const struct fg_rule *found = fg_rule_for(state, function, device);
        uint32_t delay_ms = found == NULL ? 0 : found->delay_ms;
        uint32_t code = found == NULL ? 0 : (uint32_t)found->code;
        fg_unlock(lock);
        if (found == NULL || waited_ms >= (int)delay_ms)
            return code;
        struct timespec slice = {0, 10000000};
        nanosleep(&slice, NULL);
    }
}

/* The device of a handle, with the lock held if the answer is AMDSMI_STATUS_SUCCESS. */
static uint32_t begin(const char *function, const void *handle, int *slot, int *lock)
{
    const char *at = handle;
    if (users == 0)
        return AMDSMI_STATUS_NOT_INIT;
    if (at < handles || at >= handles + slot_count)
        return AMDSMI_STATUS_INVAL;
    *slot = slots[at - handles];
    uint32_t status = late_or_wrong(function, *slot);
    if (status != AMDSMI_STATUS_SUCCESS)
        return status;
    *lock = fg_lock(path);
    fg_drop_dead(state);
    status = state->running ? (uint32_t)state->devices[*slot].fault : AMDSMI_STATUS_DRIVER_NOT_LOADED;
    if (status != AMDSMI_STATUS_SUCCESS)
        fg_unlock(*lock);
    return status;
}

static uint32_t end(int lock, uint32_t status)
{
    fg_unlock(lock);
    return status;
}

#define BEGIN(handle, pointer)                                    \
    int slot, lock;                                               \
    if ((pointer) == NULL)                                        \
        return AMDSMI_STATUS_INVAL;                               \
    uint32_t status = begin(__func__, handle, &slot, &lock);      \
    if (status != AMDSMI_STATUS_SUCCESS)                          \
        return status;                                            \
    const struct fg_device *device = &state->devices[slot];       \
    (void)device

PUBLIC uint32_t amdsmi_init(uint64_t flags)
{
    if ((flags & AMDSMI_INIT_AMD_GPUS) == 0)
        return AMDSMI_STATUS_INVAL;
    pthread_mutex_lock(&session_lock);
    path = getenv("FAKEGPU_STATE");
    if (state == NULL && path != NULL)
        state = fg_map(path);
    uint32_t status = AMDSMI_STATUS_DRIVER_NOT_LOADED;
    int lock = state == NULL ? -1 : fg_lock(path);
    if (lock >= 0) {
        if (state->running)
            status = (uint32_t)state->init_code;
        if (status == AMDSMI_STATUS_SUCCESS && users++ == 0)
            slot_count = fg_by_bus(state, slots);
        fg_unlock(lock);
    }
    pthread_mutex_unlock(&session_lock);
    return status;
}

PUBLIC uint32_t amdsmi_shut_down(void)
{
    if (users == 0)
        return AMDSMI_STATUS_NOT_INIT;
    users--;
    return AMDSMI_STATUS_SUCCESS;
}

PUBLIC uint32_t amdsmi_get_socket_handles(uint32_t *count, void **sockets)
{
    if (users == 0)
        return AMDSMI_STATUS_NOT_INIT;
    if (!state->running)
        return AMDSMI_STATUS_DRIVER_NOT_LOADED;
    for (int i = 0; sockets != NULL && i < slot_count && i < (int)*count; i++)
        sockets[i] = &handles[i];
    *count = (uint32_t)slot_count;
    return AMDSMI_STATUS_SUCCESS;
}

PUBLIC uint32_t amdsmi_get_processor_handles(void *socket, uint32_t *count, void **processors)
{
    if (processors != NULL && *count > 0)
        processors[0] = socket;
    *count = 1;
    return AMDSMI_STATUS_SUCCESS;
}

PUBLIC uint32_t amdsmi_get_gpu_device_uuid(void *handle, uint32_t *length, char *uuid)
{
    BEGIN(handle, length);
    /* The library's own name for it; what ROCR_VISIBLE_DEVICES takes is told elsewhere. */
    snprintf(uuid, *length, "%02xff74a1-0000-1000-80%02x-000000000000", device->bus, device->bus);
    return end(lock, status);
}

PUBLIC uint32_t amdsmi_get_gpu_enumeration_info(void *handle, struct_amdsmi_enumeration_info_t *info)
{
    BEGIN(handle, info);
    memset(info, 0, sizeof *info);
    info->drm_render = 128u + (uint32_t)slot;
    info->drm_card = info->hip_id = (uint32_t)slot;
    info->hsa_id = 0xffffffffu;
    snprintf(info->hip_uuid, sizeof info->hip_uuid, "%s", device->uuid);
    return end(lock, status);
}

PUBLIC uint32_t amdsmi_get_gpu_device_bdf(void *handle, union_amdsmi_bdf_t *place)
{
    BEGIN(handle, place);
    place->as_uint = 0;
    place->bdf.domain_number = device->domain;
    place->bdf.bus_number = (uint8_t)device->bus;
    place->bdf.device_number = device->slot & 31;
    return end(lock, status);
}

PUBLIC uint32_t amdsmi_get_gpu_asic_info(void *handle, struct_amdsmi_asic_info_t *info)
{
    BEGIN(handle, info);
    memset(info, 0, sizeof *info);
    snprintf(info->market_name, sizeof info->market_name, "%s", device->name);
    snprintf(info->vendor_name, sizeof info->vendor_name, "Advanced Micro Devices, Inc.");
    snprintf(info->asic_serial, sizeof info->asic_serial, "%016X", device->bus);
    info->vendor_id = 0x1002;
    info->device_id = 0x740f;
    info->oam_id = info->subsystem_id = info->subvendor_id = 0xffffffffu;
    return end(lock, status);
}

PUBLIC uint32_t amdsmi_get_gpu_driver_info(void *handle, struct_amdsmi_driver_info_t *info)
{
    BEGIN(handle, info);
    memset(info, 0, sizeof *info);
    snprintf(info->driver_name, sizeof info->driver_name, "amdgpu");
    snprintf(info->driver_version, sizeof info->driver_version, "%s", state->driver_version);
    return end(lock, status);
}

PUBLIC uint32_t amdsmi_get_gpu_vram_usage(void *handle, struct_amdsmi_vram_usage_t *usage)
{
    BEGIN(handle, usage);
    memset(usage, 0, sizeof *usage);
    usage->vram_total = (uint32_t)(device->total >> 20);
    usage->vram_used = (uint32_t)((device->total - fg_free(state, slot, -1)) >> 20);
    return end(lock, status);
}

PUBLIC uint32_t amdsmi_get_gpu_activity(void *handle, struct_amdsmi_engine_usage_t *usage)
{
    BEGIN(handle, usage);
    memset(usage, 0, sizeof *usage);
    uint32_t sum = fg_use_sum(state, slot, -1);
    usage->gfx_activity = device->utilisation >= 0 ? (uint32_t)device->utilisation
                                                   : sum > 100 ? 100 : sum;
    if (device->hides_readings)
        usage->gfx_activity = 0xffffu;
    usage->umc_activity = usage->mm_activity = 0xffffu;
    return end(lock, status);
}

PUBLIC uint32_t amdsmi_get_power_info(void *handle, struct_amdsmi_power_info_t *power)
{
    BEGIN(handle, power);
    memset(power, 0xff, sizeof *power); /* What is not known is the largest number. */
    if (!device->hides_readings)
        power->average_socket_power = device->power_mw / 1000;
    return end(lock, status);
}

PUBLIC uint32_t amdsmi_get_power_cap_info(void *handle, uint32_t sensor,
                                          struct_amdsmi_power_cap_info_t *cap)
{
    BEGIN(handle, cap);
    memset(cap, 0, sizeof *cap);
    if (sensor != 0)
        return end(lock, AMDSMI_STATUS_NOT_SUPPORTED);
    cap->power_cap = cap->max_power_cap = device->power_limit_mw * 1000ull; /* millionths */
    return end(lock, status);
}

/* Accelerators have no sensor at the edge. */
PUBLIC uint32_t amdsmi_get_temp_metric(void *handle, uint32_t sensor, uint32_t metric,
                                       int64_t *celsius)
{
    BEGIN(handle, celsius);
    if (sensor != AMDSMI_TEMPERATURE_TYPE_HOTSPOT || metric != AMDSMI_TEMP_CURRENT)
        return end(lock, AMDSMI_STATUS_NOT_SUPPORTED);
    *celsius = device->temperature_c;
    return end(lock, status);
}

static int is_readable(const struct fg_process *process)
{
    return !process->hides_memory;
}

PUBLIC uint32_t amdsmi_get_gpu_process_list(void *handle, uint32_t *count,
                                            struct_amdsmi_proc_info_t *list)
{
    BEGIN(handle, count);
    uint32_t room = *count, found = 0;
    for (int i = 0; i < FG_PROCESSES; i++) {
        const struct fg_process *process = &state->processes[i];
        if (!process->present || process->device != slot)
            continue;
        if (list != NULL && found < room) {
            memset(&list[found], 0, sizeof *list);
            list[found].pid = process->pid;
            list[found].cu_occupancy = 0xffffffffu;
            if (is_readable(process)) {
                snprintf(list[found].name, sizeof list->name, "python");
                list[found].mem = list[found].memory_usage.vram_mem = process->bytes;
            } else {
                status = AMDSMI_STATUS_NO_PERM;
            }
        }
        found++;
    }
    *count = found;
    return end(lock, room > 0 && found > room ? AMDSMI_STATUS_OUT_OF_RESOURCES : status);
}

static uint32_t pair(const char *function, const void *one, const void *other, int slots_of[2])
{
    for (int i = 0; i < 2; i++) {
        int lock;
        uint32_t status = begin(function, i ? other : one, &slots_of[i], &lock);
        if (status != AMDSMI_STATUS_SUCCESS)
            return status;
        fg_unlock(lock);
    }
    return AMDSMI_STATUS_SUCCESS;
}

PUBLIC uint32_t amdsmi_topo_get_link_type(void *one, void *other, uint64_t *hops, uint32_t *type)
{
    int of[2];
    uint32_t status = pair(__func__, one, other, of);
    if (status == AMDSMI_STATUS_SUCCESS) {
        int linked = state->nvlinks[of[0]][of[1]] > 0;
        *type = linked ? AMDSMI_LINK_TYPE_XGMI : AMDSMI_LINK_TYPE_PCIE;
        *hops = linked ? XGMI_HOPS : 2;
    }
    return status;
}

PUBLIC uint32_t amdsmi_topo_get_link_weight(void *one, void *other, uint64_t *weight)
{
    int of[2];
    uint32_t status = pair(__func__, one, other, of);
    if (status == AMDSMI_STATUS_SUCCESS)
        *weight = state->nvlinks[of[0]][of[1]] > 0 ? 15 : 40;
    return status;
}
