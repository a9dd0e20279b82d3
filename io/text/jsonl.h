/* jsonl.h - read JSON lines: one object per line, with its place for messages. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JSONL_H
#define TRI_JSONL_H

#include "base/text_buffer.h"
#include "lines.h"

struct json_t; /* jansson */

typedef struct tri_jsonl tri_jsonl;

/* Not collective. A regular file, read as a stream: only one line is held. */
TRI_CHECKED tri_status tri_jsonl_open(const char *path, tri_jsonl **out);
/* The same, but only the lines that begin at bytes begin .. end - 1 of the file. */
TRI_CHECKED tri_status tri_jsonl_open_part(const char *path, int64_t begin, int64_t end, tri_jsonl **out);
/* The same from standard input, called "stdin" in messages. */
TRI_CHECKED tri_status tri_jsonl_open_stdin(tri_jsonl **out);
void                   tri_jsonl_close(tri_jsonl **r);

/* Refuse lines of more than `bytes`, which are TRI_LINE_BYTES where this is not called; name: the deck's key
 * for it, borrowed, or NULL. */
void tri_jsonl_limit(tri_jsonl *r, int64_t bytes, const char *name);

/* From now on a line may be a list too: tri_jsonl_next gives it out, and it is what tri_jsonl_ids reads,
 * empty or not. */
void tri_jsonl_allow_lists(tri_jsonl *r);

/* The object of the next line that is not blank, borrowed until the next call; NULL at the end of the file. A
 * byte order mark at the file's start is skipped. TRI_EINPUT, with "FILE:LINE: ", for a line that is too
 * long, not JSON in UTF-8, nested deeper than 2048 or more than 2^18 times, not an object, or has a key
 * twice. Text may hold U+0000. Values that Python's json writes and the tree cannot hold are empty objects
 * in it (json_odd.h): who reads a field asks tri_jsonl_refuse_odd first. Takes up to 30 times the line's
 * bytes. Not collective. */
TRI_CHECKED tri_status tri_jsonl_next(tri_jsonl *r, struct json_t **object);

const char *tri_jsonl_path(const tri_jsonl *r);
int64_t     tri_jsonl_taken(const tri_jsonl *r); /* lines so far, blank ones too */
/* The number of the last line, counted from the file's first: of a part, this reads what lies before it. */
int64_t tri_jsonl_line(tri_jsonl *r);

/* Puts "FILE:LINE: " of the last line before the message of st where that is TRI_EINPUT; returns st. */
TRI_CHECKED tri_status tri_jsonl_place(tri_jsonl *r, tri_status st);

/* "its fields are a, b", of the last object, as far as `out` [bytes] holds; "it has no fields". */
const char *tri_jsonl_fields(const tri_jsonl *r, char *out, size_t bytes);

/* "; `reward_model.ground_truth` is there", where an inner object of the last object has a member with the
 * last name of the key (answer: or ground_truth), as far as `out` [bytes] holds; else "". */
const char *tri_jsonl_inner(const tri_jsonl *r, const char *key, char *out, size_t bytes);

/* A path of names joined by dots, such as reward_model.ground_truth, of a value in inner objects: makes this
 * value a member of the last object under the whole path, unless it has a member of that name. */
TRI_CHECKED tri_status tri_jsonl_name_path(tri_jsonl *r, const char *path);

/* Whether a value of the last object is an empty object in place of what the tree cannot hold. */
bool tri_jsonl_has_odd(const tri_jsonl *r);
/* Not collective. TRI_EINPUT, with "FILE:LINE: " and the cure, where the value under a key or path, or
 * anything within it, is such a value; else, and where there is no such key, TRI_OK. */
TRI_CHECKED tri_status tri_jsonl_refuse_odd(tri_jsonl *r, const char *key);

/* The bytes of the value under a key or path of the last object, as they stand in the file (a number keeps
 * its digits). NULL if it has no such key. Borrowed until the next call of next. */
const char *tri_jsonl_raw(const tri_jsonl *r, const char *key, size_t *n_bytes);

/* Append the members of the last object but those named (`but` ends with NULL), each as the file spells it:
 * "key": value, comma and space behind every one. Not collective. */
TRI_CHECKED tri_status tri_jsonl_put_members(const tri_jsonl *r, const char *const *but, tri_text *out);

/* The list of token ids under a key of the last object, which must be there: at least one, all in 0 ..
 * vocab - 1. Borrowed until the next call. TRI_EINPUT, with "FILE:LINE: ". Not collective. */
TRI_CHECKED tri_status tri_jsonl_ids(tri_jsonl *r, const char *key, int32_t vocab, const int32_t **id,
                                     int64_t *n);

#endif
