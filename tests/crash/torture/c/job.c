/* A job that keeps a record of itself: when it began, when it was last alive, how it is to end.
 *
 * job RECORDS TOKEN CODES MS [on-term=exit:N | on-term=ignore] [child=stay:MS | child=leave:MS]
 *
 * CODES has the exit code of each attempt, the last one for all further ones; -9 is signal 9.
 *
 * Law: a record lies within the life of its process. It begins after the process does, and what it
 * says of the end is written before. So whatever two records show at once was there at once.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RECORD_BYTES = 256, PAGE_BYTES = 4096, BEAT_NS = 4000000 };

/* See records.py, which reads this. */
struct record {
    char magic[4];
    int32_t role, job, attempt, pid, parent;
    int64_t began_ns, alive_ns, ended_ns;
    int32_t code, signal;
    char token[40], gpus[64];
    char unused[RECORD_BYTES - 160];
};
_Static_assert(sizeof(struct record) == RECORD_BYTES, "as records.py has it");

static const char *records_path, *token;
static volatile struct record *mine;
static volatile sig_atomic_t code_on_term = -1;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int number_in(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static void put_on_record(int role) {
    struct record record = {.magic = "TORT", .role = role, .code = -1};
    record.job = number_in("STOKER_JOB_ID");
    record.attempt = number_in("STOKER_ATTEMPT");
    record.pid = getpid();
    record.parent = getppid();
    record.began_ns = record.alive_ns = now_ns();
    snprintf(record.token, sizeof record.token, "%s", token);
    const char *gpus = getenv("STOKER_GPUS");
    snprintf(record.gpus, sizeof record.gpus, "%s", gpus ? gpus : "");
    int fd = open(records_path, O_RDWR | O_APPEND);
    if (fd < 0 || write(fd, &record, sizeof record) != sizeof record) {
        _exit(98);
    }
    off_t at = lseek(fd, 0, SEEK_CUR) - (off_t)sizeof record;
    char *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      at / PAGE_BYTES * PAGE_BYTES);
    if (page == MAP_FAILED) {
        _exit(97);
    }
    close(fd);
    mine = (volatile struct record *)(page + at % PAGE_BYTES);
}

static void end_with(int code) {
    if (code < 0) {
        mine->signal = -code;
    } else {
        mine->code = code;
    }
    mine->alive_ns = mine->ended_ns = now_ns();
    if (code < 0) {
        signal(-code, SIG_DFL);
        kill(getpid(), -code);
    }
    _exit(code & 255);
}

static void on_term(int number) {
    (void)number;
    if (code_on_term >= 0) {
        end_with(code_on_term);
    }
}

static void live_for(long ms) {
    int64_t until_ns = now_ns() + ms * INT64_C(1000000);
    struct timespec beat = {0, BEAT_NS};
    while (now_ns() < until_ns) {
        nanosleep(&beat, NULL);
        mine->alive_ns = now_ns();
    }
}

static int code_of_attempt(const char *codes, int attempt) {
    const char *comma;
    while (--attempt > 0 && (comma = strchr(codes, ',')) != NULL) {
        codes = comma + 1;
    }
    return atoi(codes);
}

static void make_child(const char *kind) {
    int leaves = strncmp(kind, "leave:", 6) == 0;
    /* Until it has a record of its own, it would write into its parent's. */
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    if (fork() != 0) {
        sigprocmask(SIG_UNBLOCK, &term, NULL);
        return;
    }
    if (leaves) {
        setsid();
    }
    put_on_record(leaves ? 'l' : 's');
    sigprocmask(SIG_UNBLOCK, &term, NULL);
    live_for(atol(strchr(kind, ':') + 1));
    end_with(0);
}

int main(int count, char **words) {
    if (count < 5) {
        return 99;
    }
    records_path = words[1];
    token = words[2];
    put_on_record('m');
    for (int i = 5; i < count; i++) {
        if (strcmp(words[i], "on-term=ignore") == 0) {
            signal(SIGTERM, on_term);
        } else if (strncmp(words[i], "on-term=exit:", 13) == 0) {
            code_on_term = atoi(words[i] + 13);
            signal(SIGTERM, on_term);
        } else if (strncmp(words[i], "child=", 6) == 0) {
            make_child(words[i] + 6);
        }
    }
    live_for(atol(words[4]));
    end_with(code_of_attempt(words[3], mine->attempt));
}
