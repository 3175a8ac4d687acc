/* Loaded before the C library (LD_PRELOAD): while the file that NO_PROCESSES names is there, no
 * process can be made, as at the limit of a user's processes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

static int none_left(void)
{
    const char *path = getenv("NO_PROCESSES");
    return path != NULL && access(path, F_OK) == 0;
}

int clone(int (*run)(void *), void *stack, int flags, void *given, ...)
{
    static int (*real)(int (*)(void *), void *, int, void *, ...);
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "clone");
    va_list more;
    va_start(more, given);
    void *first = va_arg(more, void *), *second = va_arg(more, void *);
    void *third = va_arg(more, void *);
    va_end(more);
    if (none_left()) {
        errno = EAGAIN;
        return -1;
    }
    return real(run, stack, flags, given, first, second, third);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    static int (*real)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                       const posix_spawnattr_t *, char *const[], char *const[]);
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "posix_spawn");
    return none_left() ? EAGAIN : real(pid, path, actions, attributes, argv, envp);
}
