/* lines.h - reads a file line by line in bounded memory, and knows line numbers for messages. Not collective,
 * all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LINES_H
#define TRI_LINES_H

#include "base/error.h"

typedef struct tri_lines tri_lines;

/* The default limit on bytes of a line (chosen: a million token ids and their log-probabilities take 20
 * MB). */
enum { TRI_LINE_BYTES = 64 << 20 };

/* Opens the lines that begin at bytes begin .. end - 1 of a regular file. For a file packed with gzip or
 * zstd, recognised by its first bytes, the offsets count unpacked bytes. A line that began before `begin` is
 * skipped and not held. TRI_EINPUT: the first bytes show that the file is not JSON lines, and the message
 * names its kind. */
TRI_CHECKED tri_status tri_lines_open(const char *path, int64_t begin, int64_t end, tri_lines **out);
/* Opens all lines of standard input. Messages call it "stdin". */
TRI_CHECKED tri_status tri_lines_open_stdin(tri_lines **out);
void                   tri_lines_close(tri_lines **l);
/* Returns the bytes of a file. A packed file is read to its end, and its unpacked bytes are counted. */
TRI_CHECKED tri_status tri_lines_size(const char *path, int64_t *bytes);

/* Refuses lines of more than `bytes`, without their newline, from now on. `name` is the deck's key of this
 * limit, borrowed for the message, or NULL. */
void tri_lines_limit(tri_lines *l, int64_t bytes, const char *name);

/* Returns the next line that has more than spaces, tabs and carriage returns. *text [*n] has no newline and
 * is borrowed until the next call. NULL: end of file. A byte order mark at the start of the file is skipped.
 * TRI_EINPUT, with "FILE:LINE: ": the line is too long. No more of it than the limit is held, and the next
 * call continues after it. */
TRI_CHECKED tri_status tri_lines_next(tri_lines *l, const char **text, size_t *n);

const char *tri_lines_path(const tri_lines *l);
int64_t     tri_lines_taken(const tri_lines *l); /* lines so far, blank ones included */
/* The number of the last line, counted from the start of the file. In a part, this reads the bytes before
 * it. */
int64_t tri_lines_number(tri_lines *l);

/* Pure. Returns the step of a file named step-NNNNNNNN.jsonl as runs name it. The number has eight digits, or
 * more without a leading 0. -1: another name. */
int64_t tri_lines_step(const char *name);

#endif
