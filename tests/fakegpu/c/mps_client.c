/* One line of text in each direction at a time; the meaning is that of mps_control.py. */
#define _GNU_SOURCE
#include "mps_client.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int mps_connect(const char *pipe_directory, double *share)
{
    /* By a descriptor of the directory, since its path may be longer than an address can be. */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int directory = open(pipe_directory, O_PATH | O_CLOEXEC);
    if (directory < 0)
        return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/control", directory);
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = connection < 0 ||
                 connect(connection, (struct sockaddr *)&address, sizeof address) != 0;
    close(directory);
    if (failed) {
        if (connection >= 0)
            close(connection);
        return -1;
    }
    char line[64];
    snprintf(line, sizeof line, "client %d", (int)getpid());
    mps_say(connection, line);
    ssize_t got = recv(connection, line, sizeof line - 1, 0);
    line[got < 0 ? 0 : got] = 0;
    if (sscanf(line, "ready %*d %lf", share) == 1)
        return connection;
    close(connection);
    return -2;
}

void mps_say(int connection, const char *word)
{
    char line[80];
    int length = snprintf(line, sizeof line, "%s\n", word);
    send(connection, line, (size_t)length, MSG_NOSIGNAL);
}

enum mps_news mps_hear(int connection)
{
    char text[256];
    ssize_t got = recv(connection, text, sizeof text - 1, MSG_DONTWAIT);
    if (got == 0)
        return MPS_FAULT; /* The daemon and its server are gone. */
    if (got < 0)
        return MPS_NOTHING;
    text[got] = 0;
    if (strstr(text, "terminated") != NULL)
        return MPS_TERMINATED;
    return strstr(text, "fault") != NULL ? MPS_FAULT : MPS_NOTHING;
}
