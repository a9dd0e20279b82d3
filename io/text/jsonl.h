/* jsonl.h - reads JSON lines, one object per line, with the place of each line for messages. Not collective,
 * all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JSONL_H
#define TRI_JSONL_H

#include "base/text_buffer.h"
#include "lines.h"

struct json_t; /* jansson */

typedef struct tri_jsonl tri_jsonl;

/* Opens a regular file for reading as a stream. Only one line is held in memory. */
TRI_CHECKED tri_status tri_jsonl_open(const char *path, tri_jsonl **out);
/* Opens the lines beginning at bytes begin .. end - 1 of the file. */
TRI_CHECKED tri_status tri_jsonl_open_part(const char *path, int64_t begin, int64_t end, tri_jsonl **out);
/* Opens standard input. Messages call it "stdin". */
TRI_CHECKED tri_status tri_jsonl_open_stdin(tri_jsonl **out);
void                   tri_jsonl_close(tri_jsonl **r);

/* Refuses lines of more than `bytes`. The default is TRI_LINE_BYTES. `name` is the deck's key of this limit,
 * borrowed, or NULL. */
void tri_jsonl_limit(tri_jsonl *r, int64_t bytes, const char *name);

/* Allows lists as lines from now on. tri_jsonl_next returns such a list, and tri_jsonl_ids reads it, empty or
 * not. */
void tri_jsonl_allow_lists(tri_jsonl *r);

/* Returns the object of the next line that is not blank, borrowed until the next call. NULL: end of file. A
 * byte order mark at the start of the file is skipped. TRI_EINPUT, with "FILE:LINE: ", for a line that is too
 * long, is not JSON in UTF-8, is nested deeper than 2048, has more than 2^18 objects and lists, is not an
 * object, or has a key twice. Text may contain U+0000. Values that the tree cannot hold are empty objects in
 * it (json_odd.h). Readers of a field call tri_jsonl_refuse_odd first. Takes up to 30 times the line's bytes
 * of memory. */
TRI_CHECKED tri_status tri_jsonl_next(tri_jsonl *r, struct json_t **object);

const char *tri_jsonl_path(const tri_jsonl *r);
int64_t     tri_jsonl_taken(const tri_jsonl *r); /* lines so far, blank ones included */
/* The number of the last line, counted from the start of the file. In a part, this reads the bytes before
 * it. */
int64_t tri_jsonl_line(tri_jsonl *r);

/* Puts "FILE:LINE: " of the last line before the message of st if st is TRI_EINPUT. Returns st. */
TRI_CHECKED tri_status tri_jsonl_place(tri_jsonl *r, tri_status st);

/* Writes "its fields are a, b" of the last object, cut to `out` [bytes], or "it has no fields". */
const char *tri_jsonl_fields(const tri_jsonl *r, char *out, size_t bytes);

/* Looks in inner objects for a member with the last name of the key. For `answer`, ground_truth is accepted
 * too. Writes " (`reward_model.ground_truth` exists)", cut to `out` [bytes]. Writes "" if there is none. */
const char *tri_jsonl_inner(const tri_jsonl *r, const char *key, char *out, size_t bytes);

/* Makes a value in inner objects a member of the last object, under its whole path. A path is names joined by
 * dots, such as reward_model.ground_truth. An existing member of that name stays. */
TRI_CHECKED tri_status tri_jsonl_name_path(tri_jsonl *r, const char *path);

/* Says if the last object has an empty object in place of a value that the tree cannot hold. */
bool tri_jsonl_has_odd(const tri_jsonl *r);
/* TRI_EINPUT, with "FILE:LINE: " and the cure, if such a value stands under a key or path or inside its
 * value. A missing key is TRI_OK. */
TRI_CHECKED tri_status tri_jsonl_refuse_odd(tri_jsonl *r, const char *key);

/* Returns the bytes of the value under a key or path of the last object as spelled in the file. Numbers keep
 * their digits. NULL: it has no such key. Borrowed until the next call of tri_jsonl_next. */
const char *tri_jsonl_raw(const tri_jsonl *r, const char *key, size_t *n_bytes);

/* Appends the members of the last object except those named in `but`, which ends with NULL. Each member is
 * spelled as in the file, as "key": value, followed by a comma and a space. */
TRI_CHECKED tri_status tri_jsonl_put_members(const tri_jsonl *r, const char *const *but, tri_text *out);

/* Returns the list of token ids under a key of the last object, borrowed until the next call. The key must
 * exist, with at least one id, all in 0 .. vocab - 1. TRI_EINPUT, with "FILE:LINE: ". */
TRI_CHECKED tri_status tri_jsonl_ids(tri_jsonl *r, const char *key, int32_t vocab, const int32_t **id,
                                     int64_t *n);

#endif
