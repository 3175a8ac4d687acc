/* Loaded into the programs of a box.
   A unix socket reaches no further than the machine: on one kernel the path would lead to the other
   box; there the peer has no pid that we could see.
   The list of mounts is the box's own, if it has one: in it a directory is on NFS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    int done = real(fd, address, length);
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (done == 0 && address->sa_family == AF_UNIX
        && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == 0) {
        shutdown(fd, SHUT_RDWR);
        errno = ECONNREFUSED;
        return -1;
    }
    return done;
}

static const char *told(const char *path)
{
    const char *own = getenv("BOX_MOUNTINFO");
    return own && strcmp(path, "/proc/self/mountinfo") == 0 ? own : path;
}

#define OPEN(name)                                                       \
    int name(const char *path, int flags, ...)                           \
    {                                                                    \
        int (*real)(const char *, int, mode_t) = dlsym(RTLD_NEXT, #name); \
        va_list rest;                                                    \
        va_start(rest, flags);                                           \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                    \
        return real(told(path), flags, mode);                            \
    }
OPEN(open)
OPEN(open64)
