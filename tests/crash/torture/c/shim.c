/* Calls of the C library that fail when a shared page says so; for LD_PRELOAD.
 *
 * Only Stoker's own processes are concerned, never jobs: which one this is, its command line says.
 * Only files under the home fail to be written, not pipes and sockets, which have no full disk.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE, SYNC, RENAME, OPEN, FORK, KINDS };
enum { DAEMON = 1, KEEPER = 2, PAGE = 4, CLIENT = 8 };

/* See shim.py, which writes this. */
struct page {
    uint32_t seed, asked;
    struct {
        uint32_t who, error, per_thousand, failed;
    } faults[KINDS];
};

static struct page *page;
static uint32_t who;
static char home[4096];
static size_t home_length;

static uint32_t who_this_is(void) {
    char words[8192];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, words, sizeof words - 1);
    if (fd >= 0) {
        close(fd);
    }
    if (length <= 0) {
        return 0;
    }
    words[length] = 0;
    for (const char *word = words; word < words + length; word += strlen(word) + 1) {
        if (strcmp(word, "stoker.executors.keeper") == 0) {
            return KEEPER;
        }
        if (strcmp(word, "stoker.daemon.main") == 0) {
            return DAEMON;
        }
        if (strcmp(word, "stoker.web.main") == 0) {
            return PAGE;
        }
        if (strcmp(word, "stoker") == 0) {
            return CLIENT;
        }
    }
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TORTURE_SHIM"), *where = getenv("STOKER_HOME");
    if (path == NULL || where == NULL || strlen(where) >= sizeof home) {
        return;
    }
    uint32_t found = who_this_is();
    int fd = found ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    void *mapped = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) {
        strcpy(home, where);
        home_length = strlen(where);
        page = mapped;
        who = found;
    }
}

/* The error with which this call is to fail, or 0. */
static int fault(enum kind kind) {
    if (page == NULL || !(page->faults[kind].who & who)) {
        return 0;
    }
    uint64_t mixed = __atomic_fetch_add(&page->asked, 1, __ATOMIC_RELAXED);
    mixed = (mixed + 1 + ((uint64_t)page->seed << 32)) * UINT64_C(0x9E3779B97F4A7C15);
    mixed ^= mixed >> 31;
    if (mixed % 1000 >= page->faults[kind].per_thousand) {
        return 0;
    }
    __atomic_fetch_add(&page->faults[kind].failed, 1, __ATOMIC_RELAXED);
    return (int)page->faults[kind].error;
}

static int is_file(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

static int is_ours(const char *path) {
    return path != NULL && strncmp(path, home, home_length) == 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_IF(condition, kind)                                                                   \
    do {                                                                                           \
        int error_ = page != NULL && (condition) ? fault(kind) : 0;                                \
        if (error_ != 0) {                                                                         \
            errno = error_;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

#define SHIM(type, name, parameters, arguments, condition, kind)                                   \
    type name parameters {                                                                         \
        static type(*next) parameters;                                                             \
        if (next == NULL) {                                                                        \
            next = NEXT(name);                                                                     \
        }                                                                                          \
        FAIL_IF(condition, kind);                                                                  \
        return next arguments;                                                                     \
    }

SHIM(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), is_file(fd), WRITE)
SHIM(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count),
     is_file(fd), WRITE)
SHIM(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at),
     is_file(fd), WRITE)
SHIM(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at),
     is_file(fd), WRITE)
SHIM(int, fsync, (int fd), (fd), is_file(fd), SYNC)
SHIM(int, fdatasync, (int fd), (fd), is_file(fd), SYNC)
SHIM(int, rename, (const char *from, const char *to), (from, to), is_ours(to), RENAME)
SHIM(int, mkdir, (const char *path, mode_t mode), (path, mode), is_ours(path), OPEN)
SHIM(pid_t, fork, (void), (), 1, FORK)

#define SHIM_OPEN(name, parameters, arguments)                                                     \
    int name parameters {                                                                          \
        static int(*next) parameters;                                                              \
        if (next == NULL) {                                                                        \
            next = NEXT(name);                                                                     \
        }                                                                                          \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                    \
        va_end(more);                                                                              \
        FAIL_IF((flags & O_CREAT) && is_ours(path), OPEN);                                         \
        return next arguments;                                                                     \
    }

SHIM_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
SHIM_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
SHIM_OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
SHIM_OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const words[], char *const env[]) {
    int error = fault(FORK);
    return error ? error : NEXT(posix_spawn)(pid, path, actions, attributes, words, env);
}

int clone(int (*function)(void *), void *stack, int flags, void *word, ...) {
    va_list more;
    va_start(more, word);
    pid_t *parent = va_arg(more, pid_t *);
    void *tls = va_arg(more, void *);
    pid_t *child = va_arg(more, pid_t *);
    va_end(more);
    FAIL_IF(1, FORK);
    return NEXT(clone)(function, stack, flags, word, parent, tls, child);
}
