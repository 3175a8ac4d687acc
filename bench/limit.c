/* The least that starting commands can cost: posix_spawn in a loop, so many at a time.
 *
 * limit JOBS SLOTS: runs `sh -c true` JOBS times, SLOTS at once. Ends with 1 if any of them fails.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

static void start(void)
{
    char *words[] = {"sh", "-c", "true", NULL};
    pid_t pid;
    int error = posix_spawnp(&pid, words[0], NULL, NULL, words, environ);
    if (error != 0) {
        fprintf(stderr, "limit: %s\n", strerror(error));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: limit JOBS SLOTS\n");
        return 2;
    }
    long left = atol(argv[1]);
    long slots = atol(argv[2]);
    long running = 0;
    while (left > 0 || running > 0) {
        while (left > 0 && running < slots) {
            start();
            left--;
            running++;
        }
        int status;
        if (wait(&status) < 0 || status != 0) {
            fprintf(stderr, "limit: a command failed\n");
            return 1;
        }
        running--;
    }
    return 0;
}
