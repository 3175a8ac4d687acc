/* Reading the command line; whatever is not understood is refused with exit code 2. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void refuse(const char *option, const char *value)
{
    fprintf(stderr, "fakegpu-train: %s: %s is not understood\n", option, value);
    exit(2);
}

uint64_t parse_bytes(const char *text, const char **rest)
{
    char *after;
    double number = strtod(text, &after);
    if (after == text || number < 0) {
        *rest = text;
        return 0;
    }
    const char *suffixes = "KMGT";
    const char *suffix = *after == 0 ? NULL : strchr(suffixes, *after & ~0x20);
    if (suffix != NULL) {
        after++;
        for (long i = suffix - suffixes; i >= 0; i--)
            number *= 1024;
        if (strncmp(after, "iB", 2) == 0)
            after += 2;
        else if (*after == 'B')
            after++;
    }
    *rest = after;
    return (uint64_t)number;
}

static uint64_t bytes(const char *option, const char *text)
{
    const char *rest;
    uint64_t value = parse_bytes(text, &rest);
    if (rest == text || *rest != 0)
        refuse(option, text);
    return value;
}

static double number(const char *option, const char *text, const char *unit)
{
    char *rest;
    double value = strtod(text, &rest);
    if (rest == text || value < 0 || (*rest != 0 && strcmp(rest, unit) != 0))
        refuse(option, text);
    return value;
}

struct options read_options(int argc, char **argv)
{
    enum { PEAK, CONTEXT, SECONDS, RAMP, LATE, VARY, SEED, USE, GPUS, STUBBORN, FRAMEWORK, REPORT };
    static const struct option known[] = {
        {"peak", required_argument, NULL, PEAK},
        {"context", required_argument, NULL, CONTEXT},
        {"seconds", required_argument, NULL, SECONDS},
        {"ramp", required_argument, NULL, RAMP},
        {"late-peak-at", required_argument, NULL, LATE},
        {"vary", required_argument, NULL, VARY},
        {"seed", required_argument, NULL, SEED},
        {"use", required_argument, NULL, USE},
        {"gpus", required_argument, NULL, GPUS},
        {"stubborn", no_argument, NULL, STUBBORN},
        {"framework", required_argument, NULL, FRAMEWORK},
        {"report", required_argument, NULL, REPORT},
        {NULL, 0, NULL, 0},
    };
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct options options = {
        .peak = 1ull << 30,
        .context = 256ull << 20,
        .seconds = 1,
        .ramp_s = 0,
        .late_peak_at = -1,
        .seed = (uint64_t)now.tv_nsec * 31 + (uint64_t)getpid(),
        .use_percent = 50,
        .framework = "torch",
    };
    int which, at = 0;
    while ((which = getopt_long(argc, argv, "", known, &at)) != -1) {
        switch (which) {
        case PEAK: options.peak = bytes("--peak", optarg); break;
        case CONTEXT: options.context = bytes("--context", optarg); break;
        case SECONDS: options.seconds = number("--seconds", optarg, "s"); break;
        case RAMP: options.ramp_s = number("--ramp", optarg, "s"); break;
        case LATE: options.late_peak_at = number("--late-peak-at", optarg, "%") / 100; break;
        case VARY: options.vary = number("--vary", optarg, "%") / 100; break;
        case SEED: options.seed = (uint64_t)number("--seed", optarg, ""); break;
        case USE: options.use_percent = (int)number("--use", optarg, "%"); break;
        case GPUS: options.gpus = (int)number("--gpus", optarg, ""); break;
        case STUBBORN: options.stubborn = 1; break;
        case FRAMEWORK: options.framework = optarg; break;
        case REPORT: options.report = optarg; break;
        default: exit(2);
        }
    }
    static const char *frameworks[] = {"torch", "tensorflow", "jax", "cublas", "cudnn"};
    for (size_t i = 0; i < sizeof frameworks / sizeof *frameworks; i++)
        if (strcmp(options.framework, frameworks[i]) == 0)
            return options;
    refuse("--framework", options.framework);
    return options;
}
