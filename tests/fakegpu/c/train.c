/* fakegpu-train: a program that "trains" on devices of the stand-in driver.
 *
 * It takes memory in steps, fails as CUDA does when there is none left, is slowed down by its
 * neighbours, and says at its end who they were. FAKEGPU_SPEED makes its time pass faster.
 */
#define _GNU_SOURCE
#include "failures.h"
#include "mps_client.h"
#include "options.h"
#include "state.h"
#include "visible.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RAMP_STEPS 8
#define NEIGHBOURS 128
#define GPU_IS_LOST 15

struct lease {                /* what this process has of one device */
    struct visible at;
    uint64_t bytes, peak, limit;
    uint32_t neighbours[NEIGHBOURS];
    int neighbour_count;
    uint32_t most_use;
};

static struct options options;
static const char *path;
static struct fg_state *state;
static struct lease leases[FG_DEVICES];
static int lease_count;
static int mps = -1;
static double server_share = 100;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void sleep_s(double seconds)
{
    struct timespec wait = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&wait, NULL);
}

static void give_back(void)
{
    int lock = fg_lock(path);
    for (int i = 0; lock >= 0 && i < FG_PROCESSES; i++)
        if (state->processes[i].present && state->processes[i].pid == (uint32_t)getpid())
            state->processes[i].present = 0;
    if (lock >= 0)
        fg_unlock(lock);
}

static void leave(int code)
{
    give_back();
    if (mps >= 0)
        mps_say(mps, "bye");
    fflush(stdout);
    exit(code);
}

static void fail(const char *words)
{
    say_cuda_error(options.framework, words);
    leave(1);
}

static void hear_mps(void)
{
    switch (mps < 0 ? MPS_NOTHING : mps_hear(mps)) {
    case MPS_NOTHING:
        return;
    case MPS_TERMINATED:
        say_cuda_error(options.framework, "the MPS client has been terminated by the server");
        give_back();
        while (options.stubborn)
            pause();
        leave(1);
        return;
    case MPS_FAULT:
        fail("unspecified launch failure");
    }
}

/* The pinned limit is of MPS alone, and names devices as this process sees them: 0=2G,1=500M. */
static uint64_t pinned_limit(int ordinal)
{
    const char *text = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    while (mps >= 0 && text != NULL && *text != 0) {
        char *after;
        long device = strtol(text, &after, 10);
        if (after == text || *after != '=')
            break;
        const char *rest;
        uint64_t limit = parse_bytes(after + 1, &rest);
        if (device == ordinal)
            return limit;
        text = *rest == ',' ? rest + 1 : NULL;
    }
    return UINT64_MAX;
}

static void choose_devices(void)
{
    struct visible found[FG_DEVICES];
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    int lock = fg_lock(path);
    if (lock < 0 || !state->running)
        fail("no CUDA-capable device is detected");
    int count = fg_visible(state, list, getenv("CUDA_DEVICE_ORDER"), found);
    fg_unlock(lock);
    /* A program that was told nothing uses one device, as most do. */
    int wanted = options.gpus > 0 ? options.gpus : list == NULL ? 1 : count;
    if (count == 0)
        fail("no CUDA-capable device is detected");
    if (wanted > count)
        fail("invalid device ordinal");
    for (lease_count = 0; lease_count < wanted; lease_count++)
        leases[lease_count] =
            (struct lease){.at = found[lease_count], .limit = pinned_limit(lease_count)};
}

static void check_fault(const struct fg_device *device, int lock)
{
    if (state->running && device->present && device->fault == 0)
        return;
    int lost = device->fault == GPU_IS_LOST;
    fg_unlock(lock);
    fail(lost ? "unknown error (the GPU has fallen off the bus)" : "unknown error");
}

static void take(int ordinal, uint64_t target)
{
    struct lease *lease = &leases[ordinal];
    if (target <= lease->bytes)
        return;
    int lock = fg_lock(path);
    fg_drop_dead(state);
    const struct fg_device *device = &state->devices[lease->at.device];
    check_fault(device, lock);
    uint64_t wanted = target - lease->bytes;
    uint64_t free_bytes = fg_free(state, lease->at.device, lease->at.mig);
    if (lease->limit != UINT64_MAX && lease->limit - lease->bytes < free_bytes)
        free_bytes = lease->limit - lease->bytes;
    struct fg_process *entry =
        fg_entry(state, (uint32_t)getpid(), lease->at.device, lease->at.mig);
    if (entry == NULL || wanted > free_bytes) {
        uint64_t total = lease->at.mig < 0 ? device->total : device->migs[lease->at.mig].total;
        fg_unlock(lock);
        say_out_of_memory(options.framework, ordinal, wanted, total, free_bytes, lease->bytes);
        leave(1);
    }
    entry->bytes = lease->bytes = target;
    entry->mps = mps >= 0;
    fg_unlock(lock);
    if (target > lease->peak)
        lease->peak = target;
}

/* How fast each runs when together they want more than there is; beyond 175 % no more gets done
 * in all, however many there are. */
static double pace(uint32_t use_sum)
{
    if (use_sum <= 100)
        return 1;
    if (use_sum <= 125)
        return 1 - 0.07 * (use_sum - 100) / 25;
    if (use_sum <= 175)
        return 0.93 - 0.18 * (use_sum - 125) / 50;
    return 0.75 * 175 / use_sum;
}

static void remember_neighbour(struct lease *lease, uint32_t pid)
{
    for (int i = 0; i < lease->neighbour_count; i++)
        if (lease->neighbours[i] == pid)
            return;
    if (lease->neighbour_count < NEIGHBOURS)
        lease->neighbours[lease->neighbour_count++] = pid;
}

/* Says how much this process uses of its devices now, and gives its pace on the slowest. */
static double work(int use_percent)
{
    double slowest = 1;
    int lock = fg_lock(path);
    fg_drop_dead(state);
    for (int i = 0; i < lease_count; i++) {
        struct lease *lease = &leases[i];
        check_fault(&state->devices[lease->at.device], lock);
        struct fg_process *mine =
            fg_entry(state, (uint32_t)getpid(), lease->at.device, lease->at.mig);
        if (mine != NULL)
            mine->use_percent = (uint32_t)use_percent;
        for (int j = 0; j < FG_PROCESSES; j++) {
            const struct fg_process *other = &state->processes[j];
            if (other->present && other->device == lease->at.device &&
                other->mig == lease->at.mig && other->pid != (uint32_t)getpid())
                remember_neighbour(lease, other->pid);
        }
        uint32_t sum = fg_use_sum(state, lease->at.device, lease->at.mig);
        if (sum > lease->most_use)
            lease->most_use = sum;
        if (pace(sum) < slowest)
            slowest = pace(sum);
    }
    fg_unlock(lock);
    return slowest;
}

static uint64_t varied_peak(void)
{
    uint64_t x = options.seed * 0x9e3779b97f4a7c15ull + 0x7f4a7c15;
    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    double unit = (double)(x >> 11) / (double)(1ull << 53) * 2 - 1;
    return (uint64_t)((double)options.peak * (1 + options.vary * unit));
}

/* Memory at a point of the run: the context, then equal steps, then (if it is late) the peak. */
static uint64_t memory_at(double done_s, uint64_t peak)
{
    uint64_t context = options.context < peak ? options.context : peak;
    uint64_t usual = options.late_peak_at < 0 ? peak : peak * 7 / 10;
    if (usual < context)
        usual = context;
    if (options.late_peak_at >= 0 && done_s >= options.late_peak_at * options.seconds)
        return peak;
    if (done_s >= options.ramp_s)
        return usual;
    int step = (int)(done_s / options.ramp_s * RAMP_STEPS);
    return context + (usual - context) * (uint64_t)step / RAMP_STEPS;
}

static void report(FILE *file, double took_s)
{
    fprintf(file, "{\"pid\": %d, \"seconds\": %.3f, \"mps\": %s, \"devices\": [", (int)getpid(),
            took_s, mps >= 0 ? "true" : "false");
    for (int i = 0; i < lease_count; i++) {
        const struct lease *lease = &leases[i];
        const struct fg_device *device = &state->devices[lease->at.device];
        fprintf(file, "%s{\"uuid\": \"%s\", \"peak_mib\": %llu, \"most_use_percent\": %u, "
                      "\"neighbours\": [", i ? ", " : "",
                lease->at.mig < 0 ? device->uuid : device->migs[lease->at.mig].uuid,
                (unsigned long long)(lease->peak >> 20), lease->most_use);
        for (int j = 0; j < lease->neighbour_count; j++)
            fprintf(file, "%s%u", j ? ", " : "", lease->neighbours[j]);
        fprintf(file, "]}");
    }
    fprintf(file, "]}\n");
}

static void connect_to_mps(void)
{
    const char *pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
    if (pipes == NULL || *pipes == 0)
        return;
    mps = mps_connect(pipes, &server_share);
    if (mps == -2)
        fail("the MPS server is not ready to accept new MPS client requests");
}

/* The part of a device's threads that MPS leaves to this process. */
static int thread_share(void)
{
    const char *text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    double share = mps >= 0 && text != NULL ? atof(text) : 100;
    if (share <= 0 || share > server_share)
        share = server_share; /* A client may take less than its server allows, never more. */
    return share < 1 ? 1 : (int)share;
}

int main(int argc, char **argv)
{
    options = read_options(argc, argv);
    path = getenv("FAKEGPU_STATE");
    state = path == NULL ? NULL : fg_map(path);
    if (state == NULL) {
        say_cuda_error(options.framework, "no CUDA-capable device is detected");
        return 1;
    }
    const char *text = getenv("FAKEGPU_SPEED");
    double speed = text != NULL && atof(text) > 0 ? atof(text) : 1;
    connect_to_mps();
    choose_devices();

    uint64_t peak = varied_peak();
    int share = thread_share();
    int use = options.use_percent < share ? options.use_percent : share;
    double own_pace = options.use_percent > share ? (double)share / options.use_percent : 1;
    double tick_s = options.seconds / speed / 40;
    tick_s = tick_s < 0.005 ? 0.005 : tick_s > 0.1 ? 0.1 : tick_s;
    double began_s = now_s(), last_s = began_s, done_s = 0;
    for (int i = 0; i < lease_count; i++)
        take(i, memory_at(0, peak));
    if (mps >= 0)
        mps_say(mps, "busy");
    while (done_s < options.seconds) {
        int starting = done_s < options.ramp_s;
        double slowed = work(starting ? use / 2 : use);
        double left_s = (options.seconds - done_s) / (speed * slowed * own_pace);
        sleep_s(left_s < tick_s ? left_s : tick_s);
        hear_mps();
        double at_s = now_s();
        done_s += (at_s - last_s) * speed * slowed * own_pace;
        last_s = at_s;
        for (int i = 0; i < lease_count; i++)
            take(i, memory_at(done_s < options.seconds ? done_s : options.seconds, peak));
    }
    double took_s = (now_s() - began_s) * speed;
    report(stdout, took_s);
    if (options.report != NULL) {
        FILE *file = fopen(options.report, "w");
        if (file == NULL) {
            perror(options.report);
            leave(1);
        }
        report(file, took_s);
        fclose(file);
    }
    leave(0);
}
