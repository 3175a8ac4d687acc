/* Reading CUDA_VISIBLE_DEVICES: the first entry that names nothing ends the list, and an entry that
 * comes twice leaves no device at all. */
#include "visible.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* By CUDA_DEVICE_ORDER: along the bus, or else the fastest first. Memory stands for speed here. */
static int ordered(const struct fg_state *state, const char *order, int slots[FG_DEVICES])
{
    int count = fg_by_bus(state, slots);
    if (order != NULL && strcmp(order, "PCI_BUS_ID") == 0)
        return count;
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && state->devices[slots[j]].total >
                                     state->devices[slots[j - 1]].total; j--) {
            int swap = slots[j];
            slots[j] = slots[j - 1];
            slots[j - 1] = swap;
        }
    return count;
}

/* A MIG-enabled device can be used only through an instance: by number, it is the first one. */
static int whole(const struct fg_state *state, int slot, struct visible *found)
{
    *found = (struct visible){slot, -1};
    const struct fg_device *device = &state->devices[slot];
    if (device->mig_mode != FG_MIG_ON)
        return 1;
    for (int mig = 0; mig < FG_MIGS; mig++)
        if (device->migs[mig].present) {
            found->mig = mig;
            return 1;
        }
    return 0;
}

static int by_uuid(const struct fg_state *state, const int *slots, int count, const char *text,
                   struct visible *found)
{
    int matches = 0;
    size_t length = strlen(text);
    for (int i = 0; i < count; i++) {
        const struct fg_device *device = &state->devices[slots[i]];
        if (strncmp(device->uuid, text, length) == 0)
            matches += whole(state, slots[i], found);
        for (int mig = 0; mig < FG_MIGS; mig++)
            if (device->mig_mode == FG_MIG_ON && device->migs[mig].present &&
                strcmp(device->migs[mig].uuid, text) == 0) {
                *found = (struct visible){slots[i], mig};
                matches++;
            }
    }
    return matches == 1; /* The beginning of a UUID will do if it is of one device only. */
}

int fg_visible(const struct fg_state *state, const char *list, const char *order,
               struct visible found[FG_DEVICES])
{
    int slots[FG_DEVICES], count = ordered(state, order, slots), kept = 0;
    if (list == NULL) {
        for (int i = 0; i < count; i++)
            if (whole(state, slots[i], &found[kept]))
                kept++;
        return kept;
    }
    char text[4096];
    strncpy(text, list, sizeof text - 1);
    text[sizeof text - 1] = 0;
    char *rest = text, *entry;
    while ((entry = strsep(&rest, ",")) != NULL && kept < FG_DEVICES) {
        while (isspace((unsigned char)*entry))
            entry++;
        struct visible one;
        if (isdigit((unsigned char)*entry)) {
            int number = atoi(entry);
            if (number >= count || !whole(state, slots[number], &one))
                break;
        } else if ((strncmp(entry, "GPU-", 4) != 0 && strncmp(entry, "MIG-", 4) != 0) ||
                   !by_uuid(state, slots, count, entry, &one)) {
            break;
        }
        for (int i = 0; i < kept; i++)
            if (found[i].device == one.device && found[i].mig == one.mig)
                return 0;
        found[kept++] = one;
    }
    return kept;
}
