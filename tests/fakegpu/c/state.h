/* The state of the stand-in driver: one file that all processes map, with a fixed layout.
 *
 * Law: whoever reads or changes it holds the file's lock (flock on a descriptor of one's own, so
 * that threads exclude each other too, and so that the lock of a killed process is gone with it).
 * layout.py mirrors these structures; a test compares the two.
 */
#ifndef FAKEGPU_STATE_H
#define FAKEGPU_STATE_H

#include <stdint.h>
#include <sys/types.h>

#define FG_MAGIC 0x31555047454b4146ull /* "FAKEGPU1" */
#define FG_DEVICES 16
#define FG_MIGS 7
#define FG_PROCESSES 512
#define FG_RULES 512
#define FG_XIDS 16
#define FG_TEXT 96

enum { FG_COMPUTE = 1, FG_GRAPHICS = 2 };
enum { FG_SHARED = 0, FG_PROHIBITED = 2, FG_EXCLUSIVE = 3 };
enum { FG_MIG_OFF = 0, FG_MIG_ON = 1, FG_MIG_UNSUPPORTED = 2 };

struct fg_mig {
    uint32_t present;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint32_t unused;
    uint64_t total;
    uint64_t reserved;
    char uuid[FG_TEXT];
    char name[FG_TEXT];
};

struct fg_device {
    uint32_t present;
    uint32_t domain;
    uint32_t bus;
    uint32_t slot;
    char uuid[FG_TEXT];
    char name[FG_TEXT];
    uint64_t total;
    uint64_t reserved;        /* by the driver itself, apart from what processes use */
    int32_t utilisation;      /* -1: what the processes on it use */
    uint32_t temperature_c;
    uint32_t power_mw;
    uint32_t power_limit_mw;
    int32_t fault;            /* an nvmlReturn_t that every call about it gives; 0 for none */
    uint32_t mig_mode;
    uint32_t hides_process_memory;
    uint32_t compute_mode;    /* in NVML's numbers */
    uint32_t hides_readings;  /* of an AMD GPU: power and use are unknown */
    uint32_t unused;
    struct fg_mig migs[FG_MIGS];
};

struct fg_process {
    uint32_t present;
    uint32_t pid;
    uint64_t start_time;      /* 0: not looked after, as for a pid of another namespace */
    int32_t device;           /* a slot of `devices`, not an index of NVML */
    int32_t mig;              /* -1: the whole device */
    uint32_t kind;
    uint32_t use_percent;
    uint32_t mps;             /* a client of an MPS server */
    uint32_t hides_memory;
    uint64_t bytes;
};

struct fg_rule {              /* what calls of a function about a device do instead */
    uint32_t present;
    int32_t device;           /* -1: any, and those about none */
    char function[FG_TEXT];   /* with its version, or without: all of them; empty: any */
    int32_t code;             /* 0: only late */
    uint32_t delay_ms;
};

struct fg_xid {
    int32_t device;
    uint32_t xid;
};

struct fg_state {
    uint64_t magic;
    uint32_t size;            /* of this structure, so that two builds never share a file */
    uint32_t running;         /* whether the driver is loaded */
    uint64_t epoch;           /* changes when the driver is loaded anew */
    int32_t init_code;
    uint32_t xid_count;       /* ever; the last FG_XIDS of them are kept */
    uint32_t cuda_version;    /* as CUDA writes it: 12040 for 12.4 */
    uint32_t unused;
    char driver_version[FG_TEXT];
    uint32_t topology[FG_DEVICES][FG_DEVICES];
    uint32_t nvlinks[FG_DEVICES][FG_DEVICES];
    struct fg_xid xids[FG_XIDS];
    struct fg_rule rules[FG_RULES];
    struct fg_device devices[FG_DEVICES];
    struct fg_process processes[FG_PROCESSES];
};

/* The mapping of the file at `path`, or NULL. It is never unmapped. */
struct fg_state *fg_map(const char *path);
/* A descriptor that holds the lock, or -1. */
int fg_lock(const char *path);
void fg_unlock(int descriptor);

/* All of these want the lock to be held. */
void fg_drop_dead(struct fg_state *state);
int fg_by_bus(const struct fg_state *state, int slots[FG_DEVICES]);
uint64_t fg_used(const struct fg_state *state, int device, int mig);
uint64_t fg_free(const struct fg_state *state, int device, int mig);
uint32_t fg_use_sum(const struct fg_state *state, int device, int mig);
struct fg_process *fg_entry(struct fg_state *state, uint32_t pid, int device, int mig);

/* The first rule for a call about a device; NULL if there is none. */
const struct fg_rule *fg_rule_for(const struct fg_state *state, const char *function, int device);

uint64_t fg_start_time(pid_t pid); /* 0 if there is no such process, or if it is a zombie */

#endif
