/* lines.h - the lines of a file one by one, in bounded memory, and their numbers for messages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_LINES_H
#define TRI_LINES_H

#include "base/error.h"

typedef struct tri_lines tri_lines;

/* Bytes of a line at most, where nothing else is said (chosen: a million token ids and their
 * log-probabilities take 20 MB). */
enum { TRI_LINE_BYTES = 64 << 20 };

/* Not collective. The lines that begin at bytes begin .. end - 1 of a regular file; of one packed with gzip
 * or zstd, as its first bytes say, at those bytes of what it unpacks to. The line under way at `begin` is
 * stepped over, and never held. TRI_EINPUT says what the file is if its beginning shows that it cannot be
 * JSON lines. */
TRI_CHECKED tri_status tri_lines_open(const char *path, int64_t begin, int64_t end, tri_lines **out);
/* The same, all lines of standard input, called "stdin" in messages. */
TRI_CHECKED tri_status tri_lines_open_stdin(tri_lines **out);
void                   tri_lines_close(tri_lines **l);
/* Not collective. Bytes of a file, of a packed one of what it unpacks to, all of which is read. */
TRI_CHECKED tri_status tri_lines_size(const char *path, int64_t *bytes);

/* Refuse lines of more than `bytes`, their newline aside, from now on; name: the key of the deck that says
 * so, borrowed and named in the message, or NULL. */
void tri_lines_limit(tri_lines *l, int64_t bytes, const char *name);

/* Not collective. The next line that is more than spaces, tabs and carriage returns: *text [*n] with no
 * newline, borrowed until the next call; NULL at the end. A byte order mark at the file's start is skipped.
 * TRI_EINPUT, with "FILE:LINE: ", for a line that is too long: no more of it than the limit is held, and the
 * next call goes on behind it. */
TRI_CHECKED tri_status tri_lines_next(tri_lines *l, const char **text, size_t *n);

const char *tri_lines_path(const tri_lines *l);
int64_t     tri_lines_taken(const tri_lines *l); /* lines so far, blank ones too */
/* The number of the last line, counted from the file's first: of a part, this reads what lies before it. */
int64_t tri_lines_number(tri_lines *l);

/* Pure. The step of a file that is called step-NNNNNNNN.jsonl as a run calls it, in eight digits, of which
 * more only where the first is no 0; -1: it is called otherwise. */
int64_t tri_lines_step(const char *name);

#endif
