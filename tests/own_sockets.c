/* Loaded into the programs of a box: a unix socket reaches no further than the machine.
   On one kernel the path would lead to the other box; there the peer has no pid that we could see. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
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
