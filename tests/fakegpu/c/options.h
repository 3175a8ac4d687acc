/* What the workload is told on its command line. */
#ifndef FAKEGPU_OPTIONS_H
#define FAKEGPU_OPTIONS_H

#include <stdint.h>

struct options {
    uint64_t peak;            /* bytes of a process on each device, its CUDA context included */
    uint64_t context;         /* bytes that the context alone takes */
    double seconds;           /* of work, alone on the device */
    double ramp_s;            /* until the memory of a usual step is reached */
    double late_peak_at;      /* the part of the work after which the peak comes; < 0: in the ramp */
    double vary;              /* by which part the peak differs from run to run */
    uint64_t seed;
    int use_percent;
    int gpus;                 /* 0: all that are visible */
    int stubborn;             /* lives on when MPS has ended its work, until it is signalled */
    const char *framework;
    const char *report;
};

struct options read_options(int argc, char **argv);
uint64_t parse_bytes(const char *text, const char **rest);

#endif
