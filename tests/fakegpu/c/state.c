/* Reading and changing the state file. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fg_state *fg_map(const char *path)
{
    struct stat seen;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return NULL;
    struct fg_state *state = MAP_FAILED;
    if (fstat(descriptor, &seen) == 0 && (size_t)seen.st_size >= sizeof *state)
        state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (state == MAP_FAILED)
        return NULL;
    if (state->magic != FG_MAGIC || state->size != sizeof *state) {
        munmap(state, sizeof *state);
        return NULL;
    }
    return state;
}

int fg_lock(const char *path)
{
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return -1;
    while (flock(descriptor, LOCK_EX) != 0)
        if (errno != EINTR) {
            close(descriptor);
            return -1;
        }
    return descriptor;
}

void fg_unlock(int descriptor)
{
    close(descriptor);
}

uint64_t fg_start_time(pid_t pid)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return 0;
    ssize_t length = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    if (length <= 0)
        return 0;
    text[length] = 0;
    char *rest = strrchr(text, ')'); /* The name before it may contain anything. */
    if (rest == NULL)
        return 0;
    char state = 0;
    unsigned long long start = 0;
    if (sscanf(rest + 2,
               "%c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : start;
}

void fg_drop_dead(struct fg_state *state)
{
    for (int i = 0; i < FG_PROCESSES; i++) {
        struct fg_process *process = &state->processes[i];
        if (process->present && process->start_time != 0 &&
            fg_start_time((pid_t)process->pid) != process->start_time)
            process->present = 0;
    }
}

static int is_about(const struct fg_rule *rule, const char *function)
{
    size_t length = strlen(rule->function);
    return length == 0 || (strncmp(rule->function, function, length) == 0 &&
                           (function[length] == 0 || strncmp(function + length, "_v", 2) == 0));
}

const struct fg_rule *fg_rule_for(const struct fg_state *state, const char *function, int device)
{
    for (int i = 0; i < FG_RULES; i++) {
        const struct fg_rule *rule = &state->rules[i];
        if (rule->present && (rule->device < 0 || rule->device == device) &&
            is_about(rule, function))
            return rule;
    }
    return NULL;
}

static int bus_compare(const struct fg_device *a, const struct fg_device *b)
{
    if (a->domain != b->domain)
        return a->domain < b->domain ? -1 : 1;
    if (a->bus != b->bus)
        return a->bus < b->bus ? -1 : 1;
    return a->slot < b->slot ? -1 : a->slot > b->slot;
}

int fg_by_bus(const struct fg_state *state, int slots[FG_DEVICES])
{
    int count = 0;
    for (int i = 0; i < FG_DEVICES; i++) {
        if (!state->devices[i].present)
            continue;
        int at = count++;
        while (at > 0 && bus_compare(&state->devices[i], &state->devices[slots[at - 1]]) < 0) {
            slots[at] = slots[at - 1];
            at--;
        }
        slots[at] = i;
    }
    return count;
}

static int is_on(const struct fg_process *process, int device, int mig)
{
    return process->present && process->device == device && (mig < 0 || process->mig == mig);
}

uint64_t fg_used(const struct fg_state *state, int device, int mig)
{
    uint64_t sum = 0;
    for (int i = 0; i < FG_PROCESSES; i++)
        if (is_on(&state->processes[i], device, mig))
            sum += state->processes[i].bytes;
    return sum;
}

uint64_t fg_free(const struct fg_state *state, int device, int mig)
{
    const struct fg_device *d = &state->devices[device];
    uint64_t total = mig < 0 ? d->total : d->migs[mig].total;
    uint64_t taken = (mig < 0 ? d->reserved : d->migs[mig].reserved) + fg_used(state, device, mig);
    return taken >= total ? 0 : total - taken;
}

uint32_t fg_use_sum(const struct fg_state *state, int device, int mig)
{
    uint32_t sum = 0;
    for (int i = 0; i < FG_PROCESSES; i++)
        if (is_on(&state->processes[i], device, mig))
            sum += state->processes[i].use_percent;
    return sum;
}

struct fg_process *fg_entry(struct fg_state *state, uint32_t pid, int device, int mig)
{
    struct fg_process *vacant = NULL;
    for (int i = 0; i < FG_PROCESSES; i++) {
        struct fg_process *process = &state->processes[i];
        if (!process->present) {
            if (vacant == NULL)
                vacant = process;
        } else if (process->pid == pid && process->device == device && process->mig == mig) {
            return process;
        }
    }
    if (vacant != NULL)
        *vacant = (struct fg_process){
            .present = 1,
            .pid = pid,
            .start_time = fg_start_time((pid_t)pid),
            .device = device,
            .mig = mig,
            .kind = FG_COMPUTE,
        };
    return vacant;
}
