/* The part of NVML's interface that the stand-in has, and what its files share.
 *
 * Numbers and structures are those of the driver's interface: programs that were built for it must
 * find them here.
 */
#ifndef FAKEGPU_NVML_H
#define FAKEGPU_NVML_H

#include "state.h"

typedef int nvmlReturn_t;
typedef struct fg_handle *nvmlDevice_t;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
};

#define NVML_VALUE_NOT_AVAILABLE (~0ull)
#define NO_DEVICE (-1)
#define PUBLIC __attribute__((visibility("default")))

struct place {                /* what a handle means */
    int device;               /* a slot of the state */
    int mig;                  /* -1: the whole device */
    int index;                /* in the order of the bus */
};

/* Begins a call: waits as long as a rule says, and gives the error that the call is to have. When
 * it returns NVML_SUCCESS, the lock is held and `end` must follow. */
nvmlReturn_t begin(const char *function, int device, struct fg_state **state, int *lock);
nvmlReturn_t begin_on(const char *function, nvmlDevice_t handle, struct fg_state **state,
                      struct place *place, int *lock);
nvmlReturn_t end(int lock, nvmlReturn_t result);

/* Handles, in the order of the bus as it was when the library was initialised. */
int device_count(void);
int slot_at(int index);
nvmlDevice_t handle_of(int index, int mig);
int place_of(nvmlDevice_t handle, struct place *place);

nvmlReturn_t give_text(const char *text, char *buffer, unsigned length);

#endif
