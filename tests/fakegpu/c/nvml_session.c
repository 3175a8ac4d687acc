/* Initialising, handles, and what every call begins with. */
#define _GNU_SOURCE
#include "session.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define SLICE_MS 10

static pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int users;                /* how often initialised */
    char path[4096];
    struct fg_state *state;
    uint64_t epoch;
    int count;
    int slots[FG_DEVICES];
} session;

struct nvmlDevice_st { struct place place; };
static struct nvmlDevice_st handles[FG_DEVICES][FG_MIGS + 1];

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A hanging driver: the caller sleeps for as long as the rule stands, at most its delay. */
static nvmlReturn_t obey_rules(const char *path, struct fg_state *state, const char *function,
                               int device)
{
    int64_t began_ms = now_ms();
    for (;;) {
        int lock = fg_lock(path);
        if (lock < 0)
            return NVML_ERROR_UNKNOWN;
        const struct fg_rule *found = fg_rule_for(state, function, device);
        struct fg_rule rule = found == NULL ? (struct fg_rule){0} : *found;
        fg_unlock(lock);
        if (found == NULL)
            return NVML_SUCCESS;
        if (now_ms() - began_ms >= (int64_t)rule.delay_ms)
            return rule.code;
        struct timespec slice = {0, SLICE_MS * 1000000L};
        nanosleep(&slice, NULL);
    }
}

nvmlReturn_t begin(const char *function, int device, struct fg_state **state, int *lock)
{
    pthread_mutex_lock(&session_lock);
    int ready = session.users > 0;
    struct fg_state *mapped = session.state;
    uint64_t epoch = session.epoch;
    char path[sizeof session.path];
    strcpy(path, session.path);
    pthread_mutex_unlock(&session_lock);
    if (!ready)
        return NVML_ERROR_UNINITIALIZED;
    nvmlReturn_t result = obey_rules(path, mapped, function, device);
    if (result != NVML_SUCCESS)
        return result;
    *lock = fg_lock(path);
    if (*lock < 0)
        return NVML_ERROR_UNKNOWN;
    *state = mapped;
    if (!mapped->running)
        return end(*lock, NVML_ERROR_DRIVER_NOT_LOADED);
    if (mapped->epoch != epoch)
        return end(*lock, NVML_ERROR_UNINITIALIZED);
    if (device >= 0 && mapped->devices[device].fault != 0)
        return end(*lock, mapped->devices[device].fault);
    fg_drop_dead(mapped);
    return NVML_SUCCESS;
}

nvmlReturn_t begin_on(const char *function, nvmlDevice_t handle, struct fg_state **state,
                      struct place *place, int *lock)
{
    if (!place_of(handle, place))
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin(function, place->device, state, lock);
    if (result == NVML_SUCCESS && place->mig >= 0 &&
        !(*state)->devices[place->device].migs[place->mig].present)
        return end(*lock, NVML_ERROR_INVALID_ARGUMENT); /* The instance has been destroyed. */
    return result;
}

nvmlReturn_t end(int lock, nvmlReturn_t result)
{
    fg_unlock(lock);
    return result;
}

int device_count(void)
{
    pthread_mutex_lock(&session_lock);
    int count = session.count;
    pthread_mutex_unlock(&session_lock);
    return count;
}

int slot_at(int index)
{
    pthread_mutex_lock(&session_lock);
    int slot = index >= 0 && index < session.count ? session.slots[index] : NO_DEVICE;
    pthread_mutex_unlock(&session_lock);
    return slot;
}

nvmlDevice_t handle_of(int index, int mig)
{
    nvmlDevice_t handle = &handles[index][mig + 1];
    handle->place = (struct place){slot_at(index), mig, index};
    return handle;
}

int place_of(nvmlDevice_t handle, struct place *place)
{
    if (handle < &handles[0][0] || handle > &handles[FG_DEVICES - 1][FG_MIGS])
        return 0;
    *place = handle->place;
    return 1;
}

nvmlReturn_t give_text(const char *text, char *buffer, unsigned length)
{
    if (buffer == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) + 1 > length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

static nvmlReturn_t start_session(void)
{
    const char *path = getenv("FAKEGPU_STATE");
    if (path == NULL || strlen(path) >= sizeof session.path)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    struct fg_state *state = session.state;
    if (state == NULL || strcmp(path, session.path) != 0)
        state = fg_map(path);
    if (state == NULL)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    session.state = state;
    strcpy(session.path, path);
    int lock = fg_lock(path);
    if (lock < 0)
        return NVML_ERROR_UNKNOWN;
    nvmlReturn_t result = state->init_code;
    if (!state->running)
        result = NVML_ERROR_DRIVER_NOT_LOADED;
    if (result == NVML_SUCCESS) {
        session.epoch = state->epoch;
        session.count = fg_by_bus(state, session.slots);
    }
    return end(lock, result);
}

nvmlReturn_t not_played_on(const char *function, nvmlDevice_t handle)
{
    struct fg_state *state;
    struct place place;
    int lock;
    nvmlReturn_t result = begin_on(function, handle, &state, &place, &lock);
    return result ? result : end(lock, NVML_ERROR_NOT_SUPPORTED);
}

nvmlReturn_t not_played(const char *function)
{
    struct fg_state *state;
    int lock;
    nvmlReturn_t result = begin(function, NO_DEVICE, &state, &lock);
    return result ? result : end(lock, NVML_ERROR_NOT_SUPPORTED);
}

PUBLIC nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    const char *path = getenv("FAKEGPU_STATE");
    struct fg_state *state = path == NULL ? NULL : fg_map(path);
    if (state != NULL) {
        nvmlReturn_t slow = obey_rules(path, state, "nvmlInit", NO_DEVICE);
        if (slow != NVML_SUCCESS)
            return slow;
    }
    pthread_mutex_lock(&session_lock);
    nvmlReturn_t result = session.users > 0 ? NVML_SUCCESS : start_session();
    if (result == NVML_SUCCESS)
        session.users++;
    pthread_mutex_unlock(&session_lock);
    return result;
}

PUBLIC nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

PUBLIC nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

PUBLIC nvmlReturn_t nvmlShutdown(void)
{
    pthread_mutex_lock(&session_lock);
    nvmlReturn_t result = session.users > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    if (result == NVML_SUCCESS)
        session.users--;
    pthread_mutex_unlock(&session_lock);
    return result;
}

PUBLIC const char *nvmlErrorString(nvmlReturn_t result)
{
    static const struct { nvmlReturn_t code; const char *text; } texts[] = {
        {NVML_SUCCESS, "The operation was successful"},
        {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
        {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
        {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
        {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
        {NVML_ERROR_NOT_FOUND, "Not Found"},
        {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
        {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
        {NVML_ERROR_TIMEOUT, "Timeout"},
        {NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found"},
        {NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
        {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
        {NVML_ERROR_RESET_REQUIRED, "GPU requires reset"},
        {NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"},
        {NVML_ERROR_MEMORY, "Insufficient Memory"},
        {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].code == result)
            return texts[i].text;
    return "Unknown Error";
}

PUBLIC nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    struct fg_state *state;
    int lock;
    nvmlReturn_t result = begin("nvmlSystemGetDriverVersion", NO_DEVICE, &state, &lock);
    return result ? result : end(lock, give_text(state->driver_version, version, length));
}

PUBLIC nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    struct fg_state *state;
    int lock;
    char text[FG_TEXT + 12];
    nvmlReturn_t result = begin("nvmlSystemGetNVMLVersion", NO_DEVICE, &state, &lock);
    if (result)
        return result;
    snprintf(text, sizeof text, "%u.%s", state->cuda_version / 1000, state->driver_version);
    return end(lock, give_text(text, version, length));
}

static nvmlReturn_t cuda_version(int *version)
{
    struct fg_state *state;
    int lock;
    if (version == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin("nvmlSystemGetCudaDriverVersion", NO_DEVICE, &state, &lock);
    if (result)
        return result;
    *version = (int)state->cuda_version;
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return cuda_version(version);
}

PUBLIC nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return cuda_version(version);
}

PUBLIC nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    struct fg_state *state;
    int lock;
    if (count == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = begin("nvmlDeviceGetCount", NO_DEVICE, &state, &lock);
    if (result)
        return result;
    *count = (unsigned)device_count();
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    struct fg_state *state;
    int lock;
    int slot = slot_at((int)index);
    nvmlReturn_t result = begin("nvmlDeviceGetHandleByIndex", slot, &state, &lock);
    if (result)
        return result;
    if (device == NULL || slot == NO_DEVICE)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    *device = handle_of((int)index, -1);
    return end(lock, NVML_SUCCESS);
}

PUBLIC nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    struct fg_state *state;
    int lock;
    nvmlReturn_t result = begin("nvmlDeviceGetHandleByUUID", NO_DEVICE, &state, &lock);
    if (result)
        return result;
    if (uuid == NULL || device == NULL)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    for (int index = 0; index < device_count(); index++) {
        const struct fg_device *d = &state->devices[slot_at(index)];
        int mig = -1;
        if (strcmp(d->uuid, uuid) != 0) {
            for (mig = 0; mig < FG_MIGS; mig++)
                if (d->migs[mig].present && strcmp(d->migs[mig].uuid, uuid) == 0)
                    break;
            if (mig == FG_MIGS)
                continue;
        }
        if (d->fault != 0)
            return end(lock, d->fault);
        *device = handle_of(index, mig);
        return end(lock, NVML_SUCCESS);
    }
    return end(lock, NVML_ERROR_NOT_FOUND);
}

PUBLIC nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    struct fg_state *state;
    int lock;
    unsigned domain, bus, slot;
    nvmlReturn_t result = begin("nvmlDeviceGetHandleByPciBusId", NO_DEVICE, &state, &lock);
    if (result)
        return result;
    if (bus_id == NULL || device == NULL || sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return end(lock, NVML_ERROR_INVALID_ARGUMENT);
    for (int index = 0; index < device_count(); index++) {
        const struct fg_device *d = &state->devices[slot_at(index)];
        if (d->domain == domain && d->bus == bus && d->slot == slot) {
            if (d->fault != 0)
                return end(lock, d->fault);
            *device = handle_of(index, -1);
            return end(lock, NVML_SUCCESS);
        }
    }
    return end(lock, NVML_ERROR_NOT_FOUND);
}
