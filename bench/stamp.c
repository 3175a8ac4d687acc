/* A job that does nothing but say when: stamp FILE MILLISECONDS
 *
 * Appends a line `SLOT START END` to FILE: the GPU that it was given, and the monotonic clock in
 * nanoseconds at its start and just before its end. It sleeps that long in between, if at all.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

int main(int argc, char **argv)
{
    long long start = now_ns();
    if (argc < 3)
        return 2;
    const char *slot = getenv("CUDA_VISIBLE_DEVICES");
    int file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file < 0)
        return 1;
    int pause_ms = atoi(argv[2]);
    if (pause_ms > 0)
        usleep(pause_ms * 1000);
    char line[128];
    int length = snprintf(line, sizeof line, "%s %lld %lld\n", slot ? slot : "-", start, now_ns());
    return write(file, line, length) == length ? 0 : 1;
}
