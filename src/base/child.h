/* child.h - a child program: started with three pipes in its own process group, killed with the group. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHILD_H
#define TRI_CHILD_H

#include "error.h"

/* The pipe ends of this process. They do not block. -1: closed. */
typedef struct tri_child {
  int pid; /* leader of its group, or its keeper. 0: there is none */
  int in, out, err;
  int report;  /* the keeper's report. -1: it has no keeper */
  int program; /* process number of a program under a keeper */
} tri_child;

/* Starts argv [NULL at the end]. argv[0] without a slash is searched in PATH. The system kills the child when
 * the thread that started it ends, for any reason. The child gets default signals, and no file of this
 * process except the pipes. Any thread may call it. No memory of this process is copied. TRI_ECONFIG: it
 * cannot be started. TRI_EABSENT: tri_child_kill_all was called before. */
TRI_CHECKED tri_status tri_child_start(char *const *argv, tri_child *out);
/* The same under a keeper (keeper.h), for a program of the user. When the program ends, all processes started
 * by it end too. This includes processes that left its group, orphans, and processes left behind when this
 * process is killed. Takes some 30 ms longer. */
TRI_CHECKED tri_status tri_child_start_kept(char *const *argv, tri_child *out);
/* TRI_ECONFIG, as from tri_child_start: there is no such program to run. Starts nothing. */
TRI_CHECKED tri_status tri_child_check(const char *program);
/* Close the pipe to its stdin, or the pipe from its stderr. */
void tri_child_close_input(tri_child *c);
void tri_child_close_error(tri_child *c);
/* True if the program has ended. It still needs tri_child_kill. */
bool tri_child_has_ended(const tri_child *c);
/* Reads its output until the output and the program end, waiting at most patience_s. out [cap] ends with a
 * NUL. False: the output had not ended by then, or is longer. */
bool tri_child_read(tri_child *c, double patience_s, char *out, size_t cap);

enum { TRI_CHILD_HOW_BYTES = 64 };
/* Closes the pipes, kills the group and waits for its leader. Under a keeper it kills all that the program
 * started. how: "it ended with exit code 3" or "signal 9 ended it", and "" if it had not ended. NULL: not
 * wanted. *c is zeroed, and may be zeroed before. */
void tri_child_kill(tri_child *c, char how[TRI_CHILD_HOW_BYTES]);
/* Kills all live groups at once, without waiting. No thread can start another one from here on. Callable from
 * a signal handler, for a process that ends in haste. */
void tri_child_kill_all(void);
bool tri_child_all_killed(void);
/* From here on, SIGHUP, SIGINT and SIGTERM call tri_child_kill_all before they end this process. Signals with
 * a handler, or ignored ones, stay as they are. For programs that do not catch these signals. Main thread
 * only. */
void tri_child_mind_signals(void);

#endif
