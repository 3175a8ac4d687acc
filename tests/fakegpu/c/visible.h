/* Which devices a process may use, as CUDA reads it from the environment. */
#ifndef FAKEGPU_VISIBLE_H
#define FAKEGPU_VISIBLE_H

#include "state.h"

struct visible {
    int device;               /* a slot of the state */
    int mig;                  /* -1: the whole device */
};

/* The number of devices that `list` names, in its order; NULL means all. With the lock held. */
int fg_visible(const struct fg_state *state, const char *list, const char *order,
               struct visible found[FG_DEVICES]);

#endif
