/* proc_state.h - tells from /proc whether another process of this node runs. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PROC_STATE_H
#define TRI_PROC_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* RUNS     a thread runs, or waits for a core or a disk (R, D)
 * STOPPED  by a signal or a debugger (T, t)
 * GONE     it has ended, is a zombie (Z, X), or its number belongs to another process now
 * SLEEPS   all its threads sleep
 * UNKNOWN  /proc does not tell */
typedef enum {
  TRI_PROC_UNKNOWN,
  TRI_PROC_RUNS,
  TRI_PROC_SLEEPS,
  TRI_PROC_STOPPED,
  TRI_PROC_GONE
} tri_proc_state;

/* Not collective, all that follow. Start of the process in clock ticks since boot. 0: /proc does not tell. */
uint64_t tri_proc_start(int64_t pid);
/* start is an earlier result of tri_proc_start. 0: unknown, and not compared. */
tri_proc_state tri_proc_look(int64_t pid, uint64_t start);
/* Pure. Reads a line of /proc/PID/stat: the letter of the state, and the start. False: the line has another
 * form. */
bool tri_proc_read(const char *line, char *letter, uint64_t *start);

#endif
