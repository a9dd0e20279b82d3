/* log.h - what a run says: levels, the terminal, the file. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LOG_H
#define TRI_LOG_H

#include <stdbool.h>

/* Log levels by how much they may print. error and warn: any rank, once. info: rank 0, a few lines a phase.
 * detail: rank 0, tables and lists. debug: any rank. What is asked for goes to stderr, out of the way of the
 * live line (live.h), and, once tri_log_file was called, to that file too; detail to the file always. */
typedef enum { TRI_LOG_ERROR, TRI_LOG_WARN, TRI_LOG_INFO, TRI_LOG_DETAIL, TRI_LOG_DEBUG } tri_log_level;
void tri_log_open(int rank, tri_log_level level); /* what stderr shows; info and detail: rank 0 only */
/* Until tri_log_unmute stderr shows no more than `most`, whatever tri_log_open said. Not nested. */
void tri_log_mute(tri_log_level most);
void tri_log_unmute(void);
/* Whether this is rank 0, as far as the log knows. */
bool tri_log_is_first(void);
/* FILE *, borrowed; NULL to stop. What was logged before is kept (up to 64 KiB) and written to the first
 * file. */
void tri_log_file(void *file);
/* As tri_fail: of the newlines only those of fmt itself stay. tri_log_lines: all newlines of text stay, so it
 * must be one that this program made. Where stderr is a terminal, lines too long for it are broken at words
 * (not those that begin with just four spaces, commands to be typed); in pipes and in the file every line
 * stays whole. tri_log_table: as tri_log_lines, but nothing is broken. tri_log_narrow: as tri_log, broken at
 * 79 columns in pipes and in the file too. */
void tri_log(tri_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tri_log_narrow(tri_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tri_log_lines(tri_log_level level, const char *text);
void tri_log_table(tri_log_level level, const char *text);
/* One whole line with its newline, to stderr and the file, at once: no lock is waited for, no buffer kept. Of
 * any thread; of a run whose other threads may hang. */
void tri_log_urgent(const char *line);

#endif
