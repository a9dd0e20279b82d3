/* child.h - a program beside this one: started with three pipes in a process group of its own, killed with
 * the group. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHILD_H
#define TRI_CHILD_H

#include "error.h"

/* The ends here do not block; -1: closed. */
typedef struct tri_child {
  int pid; /* of the leader of its group, or of its keeper; 0: there is none */
  int in, out, err;
  int report;  /* of a keeper; -1: it has none */
  int program; /* under a keeper: its number */
} tri_child;

/* Not collective. Starts argv [NULL at the end]; argv[0] without a slash is looked for in PATH. It is killed
 * by the system when the thread that started it ends, however it ends. It gets no file of this process but
 * the pipes, and default signals. Any thread may call it; nothing is copied of this process's memory.
 * TRI_ECONFIG: it cannot be started; TRI_EABSENT: after tri_child_kill_all. */
TRI_CHECKED tri_status tri_child_start(char *const *argv, tri_child *out);
/* Not collective. The same under a keeper (keeper.h), for a program of the user: with it end all processes
 * that it started, also those that left its group, whose parents ended, or that this process leaves behind
 * when it is killed. Takes some 30 ms longer. */
TRI_CHECKED tri_status tri_child_start_kept(char *const *argv, tri_child *out);
/* Not collective. TRI_ECONFIG, as tri_child_start, where there is no such program to be run; nothing is
 * started. */
TRI_CHECKED tri_status tri_child_check(const char *program);
/* What is written to it ends; no more is heard of its stderr. */
void tri_child_close_input(tri_child *c);
void tri_child_close_error(tri_child *c);
/* Whether the program has ended; it stays to be killed. */
bool tri_child_has_ended(const tri_child *c);
/* Not collective. What it prints until its output ends, and it, waited for so long at most: out [cap], with a
 * NUL. False: its output had not ended by then, or is longer. */
bool tri_child_read(tri_child *c, double patience_s, char *out, size_t cap);

enum { TRI_CHILD_HOW_BYTES = 64 };
/* Closes the pipes, kills the group, under a keeper all that the program started, and waits for the leader.
 * how: "it ended with exit code 3", "signal 9 ended it"; "": it had not ended; NULL: nobody asks. *c is
 * zeroed, and may be before. */
void tri_child_kill(tri_child *c, char how[TRI_CHILD_HOW_BYTES]);
/* Kills all groups that were started and not killed, at once and without waiting; no thread starts another
 * one from here on. A signal handler may call it: for whoever ends this process in haste. */
void tri_child_kill_all(void);
bool tri_child_all_killed(void);
/* From here on SIGHUP, SIGINT and SIGTERM, where they would end this process, do so after tri_child_kill_all:
 * for whoever does not catch them. Of the main thread. */
void tri_child_mind_signals(void);

#endif
