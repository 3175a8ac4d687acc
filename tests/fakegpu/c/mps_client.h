/* The workload's side of MPS: a connection to the control daemon of the pipe directory. */
#ifndef FAKEGPU_MPS_CLIENT_H
#define FAKEGPU_MPS_CLIENT_H

enum mps_news { MPS_NOTHING, MPS_TERMINATED, MPS_FAULT };

/* A descriptor; -1 where there is no daemon, so that one runs without; -2 if it takes nobody.
 * `share` is then the percentage of threads that the server leaves to each client. */
int mps_connect(const char *pipe_directory, double *share);
void mps_say(int connection, const char *word);
enum mps_news mps_hear(int connection);

#endif
