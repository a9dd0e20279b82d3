/* log.h - log messages by level, to the terminal and the file. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LOG_H
#define TRI_LOG_H

#include <stdbool.h>

/* Log levels by volume. error and warn: any rank, once. info: rank 0, a few lines per phase. detail: rank 0,
 * tables and lists. debug: any rank. The levels chosen by tri_log_open go to stderr, without disturbing the
 * live line (live.h). After tri_log_file they go to this file too. The file always gets detail. */
typedef enum { TRI_LOG_ERROR, TRI_LOG_WARN, TRI_LOG_INFO, TRI_LOG_DETAIL, TRI_LOG_DEBUG } tri_log_level;
/* Sets the level of stderr. Only rank 0 shows info and detail. */
void tri_log_open(int rank, tri_log_level level);
/* Until tri_log_unmute, stderr shows at most the level `most`, whatever tri_log_open set. Calls do not
 * nest. */
void tri_log_mute(tri_log_level most);
void tri_log_unmute(void);
/* True if this is rank 0, as far as the log knows. */
bool tri_log_is_first(void);
/* Sets the log file, a FILE *, borrowed. NULL stops it. Earlier messages are kept (up to 64 KiB) and written
 * to the first file. */
void tri_log_file(void *file);
/* tri_log formats as tri_fail does, so only the newlines of fmt itself stay. tri_log_lines keeps all newlines
 * of text, so this program must have made the text. tri_log_table does the same but never breaks lines. On a
 * terminal, the others break lines at words if they are too long for it. Lines that begin with exactly four
 * spaces are commands to be typed and stay whole. In pipes and in the file every line stays whole, except for
 * tri_log_narrow. It formats as tri_log does and breaks lines at 79 columns there too. */
void tri_log(tri_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tri_log_narrow(tri_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tri_log_lines(tri_log_level level, const char *text);
/* Formats as tri_log does, and appends ": " and the message of the last error, whose lines stay lines. */
void tri_log_error(tri_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tri_log_table(tri_log_level level, const char *text);
/* Writes one whole line with its newline to stderr and the file, at once, without locks and buffers. Any
 * thread may call it, even if other threads hang. */
void tri_log_urgent(const char *line);

#endif
