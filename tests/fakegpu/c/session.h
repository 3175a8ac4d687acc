/* What the files of the stand-in libnvidia-ml share. Structures, versions and numbers are NVIDIA's own,
 * from the nvml.h of the package nvidia-nvml-dev: a function that differs from it does not compile.
 */
#ifndef FAKEGPU_SESSION_H
#define FAKEGPU_SESSION_H

#include "state.h"

#define NVML_NO_UNVERSIONED_FUNC_DEFS /* Each form of a function has its own name here. */
#include <nvml.h>

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

/* What a function answers that the stand-in does not play: of a device, and of anything else. */
nvmlReturn_t not_played_on(const char *function, nvmlDevice_t handle);
nvmlReturn_t not_played(const char *function);

/* Handles, in the order of the bus as it was when the library was initialised. */
int device_count(void);
int slot_at(int index);
nvmlDevice_t handle_of(int index, int mig);
int place_of(nvmlDevice_t handle, struct place *place);

nvmlReturn_t give_text(const char *text, char *buffer, unsigned length);

/* For the test that compares state.h with layout.py. */
unsigned fakegpu_layout(unsigned which);

#endif
