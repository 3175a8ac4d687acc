/* What is asked about one device, or one MIG instance. */
#include "session.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define BEGIN(name, handle, pointer)                                    \
    struct fg_state *state;                                             \
    struct place place;                                                 \
    int lock;                                                           \
    if ((pointer) == NULL)                                              \
        return NVML_ERROR_INVALID_ARGUMENT;                             \
    nvmlReturn_t result = begin_on(name, handle, &state, &place, &lock); \
    if (result != NVML_SUCCESS)                                         \
        return result;                                                  \
    const struct fg_device *device = &state->devices[place.device];     \
    const struct fg_mig *mig = place.mig < 0 ? NULL : &device->migs[place.mig]; \
    (void)device;                                                       \
    (void)mig

PUBLIC nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char *uuid, unsigned length)
{
    BEGIN("nvmlDeviceGetUUID", handle, uuid);
    return end(lock, give_text(mig ? mig->uuid : device->uuid, uuid, length));
}

PUBLIC nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char *name, unsigned length)
{
    BEGIN("nvmlDeviceGetName", handle, name);
    return end(lock, give_text(mig ? mig->name : device->name, name, length));
}

PUBLIC nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned *index)
{
    BEGIN("nvmlDeviceGetIndex", handle, index);
    *index = (unsigned)(mig ? place.mig : place.index);
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned *minor)
{
    BEGIN("nvmlDeviceGetMinorNumber", handle, minor);
    *minor = (unsigned)place.device;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t *pci)
{
    BEGIN("nvmlDeviceGetPciInfo", handle, pci);
    memset(pci, 0, sizeof *pci);
    pci->domain = device->domain;
    pci->bus = device->bus;
    pci->device = device->slot;
    pci->pciDeviceId = 0x20b010deu;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0",
             device->domain & 0xffffu, device->bus & 0xffu, device->slot & 0xffu);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", device->domain, device->bus,
             device->slot);
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *memory)
{
    BEGIN("nvmlDeviceGetMemoryInfo", handle, memory);
    /* The first form knows of no reservation: what the driver keeps counts as used. */
    memory->total = mig ? mig->total : device->total;
    memory->free = fg_free(state, place.device, place.mig);
    memory->used = memory->total - memory->free;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *memory)
{
    BEGIN("nvmlDeviceGetMemoryInfo_v2", handle, memory);
    if (memory->version != nvmlMemory_v2)
        return end(lock, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    memory->total = mig ? mig->total : device->total;
    memory->reserved = mig ? mig->reserved : device->reserved;
    memory->free = fg_free(state, place.device, place.mig);
    memory->used = memory->total - memory->reserved - memory->free;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t *rates)
{
    BEGIN("nvmlDeviceGetUtilizationRates", handle, rates);
    if (mig || device->mig_mode == FG_MIG_ON)
        return end(lock, NVML_ERROR_NOT_SUPPORTED);
    unsigned sum = fg_use_sum(state, place.device, -1);
    rates->gpu = device->utilisation >= 0 ? (unsigned)device->utilisation : sum > 100 ? 100 : sum;
    rates->memory = rates->gpu / 2;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, nvmlTemperatureSensors_t sensor,
                                             unsigned *celsius)
{
    BEGIN("nvmlDeviceGetTemperature", handle, celsius);
    if (sensor != NVML_TEMPERATURE_GPU)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    if (mig)
        return end(lock, NVML_ERROR_NOT_SUPPORTED);
    *celsius = device->temperature_c;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t handle, nvmlTemperature_t *reading)
{
    BEGIN("nvmlDeviceGetTemperature", handle, reading);
    if (reading->version != nvmlTemperature_v1)
        return end(lock, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (reading->sensorType != NVML_TEMPERATURE_GPU)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    if (mig)
        return end(lock, NVML_ERROR_NOT_SUPPORTED);
    reading->temperature = (int)device->temperature_c;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t handle, unsigned *milliwatts)
{
    BEGIN("nvmlDeviceGetPowerUsage", handle, milliwatts);
    if (mig)
        return end(lock, NVML_ERROR_NOT_SUPPORTED);
    *milliwatts = device->power_mw;
    return end(lock, NVML_SUCCESS);
}

static nvmlReturn_t power_limit(nvmlDevice_t handle, unsigned *milliwatts, const char *function)
{
    BEGIN(function, handle, milliwatts);
    if (mig)
        return end(lock, NVML_ERROR_NOT_SUPPORTED);
    *milliwatts = device->power_limit_mw;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t handle, unsigned *milliwatts)
{
    return power_limit(handle, milliwatts, "nvmlDeviceGetEnforcedPowerLimit");
}

PUBLIC nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t handle, unsigned *milliwatts)
{
    return power_limit(handle, milliwatts, "nvmlDeviceGetPowerManagementLimit");
}

PUBLIC nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned *current, unsigned *pending)
{
    BEGIN("nvmlDeviceGetMigMode", handle, current);
    if (mig || device->mig_mode == FG_MIG_UNSUPPORTED)
        return end(lock, NVML_ERROR_NOT_SUPPORTED);
    *current = device->mig_mode;
    if (pending != NULL)
        *pending = device->mig_mode;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned *count)
{
    BEGIN("nvmlDeviceGetMaxMigDeviceCount", handle, count);
    if (mig)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    *count = device->mig_mode == FG_MIG_UNSUPPORTED ? 0 : FG_MIGS;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned index,
                                                        nvmlDevice_t *instance)
{
    BEGIN("nvmlDeviceGetMigDeviceHandleByIndex", handle, instance);
    if (device->mig_mode == FG_MIG_UNSUPPORTED)
        return end(lock, NVML_ERROR_NOT_SUPPORTED);
    if (mig || index >= FG_MIGS)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    /* Indices may have gaps where instances were destroyed. */
    if (device->mig_mode != FG_MIG_ON || !device->migs[index].present)
        return end(lock, NVML_ERROR_NOT_FOUND);
    *instance = handle_of(place.index, (int)index);
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t handle,
                                                                 nvmlDevice_t *parent)
{
    BEGIN("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle, parent);
    if (!mig)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    *parent = handle_of(place.index, -1);
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned *is_mig)
{
    BEGIN("nvmlDeviceIsMigDeviceHandle", handle, is_mig);
    *is_mig = mig != NULL;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned *id)
{
    BEGIN("nvmlDeviceGetGpuInstanceId", handle, id);
    if (!mig)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    *id = mig->gpu_instance;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t handle, unsigned *id)
{
    BEGIN("nvmlDeviceGetComputeInstanceId", handle, id);
    if (!mig)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    *id = mig->compute_instance;
    return end(lock, NVML_SUCCESS);
}

PUBLIC unsigned fakegpu_layout(unsigned which)
{
    const unsigned sizes[] = {
        sizeof(struct fg_state), sizeof(struct fg_device), sizeof(struct fg_mig),
        sizeof(struct fg_process), sizeof(struct fg_rule), offsetof(struct fg_state, topology),
        offsetof(struct fg_state, devices), offsetof(struct fg_state, processes),
        offsetof(struct fg_device, migs), offsetof(struct fg_process, bytes),
    };
    return which < sizeof sizes / sizeof *sizes ? sizes[which] : 0;
}
