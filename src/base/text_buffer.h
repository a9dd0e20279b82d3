/* text_buffer.h - text that grows; texts copied and compared. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEXT_BUFFER_H
#define TRI_TEXT_BUFFER_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>

/* A copy of the text; *out by tri_host_free. Not collective. */
TRI_CHECKED tri_status tri_copy_text(const char *text, char **out);

/* Growable text, for messages and JSON. Zero-initialise; tri_text_free leaves it zeroed. */
typedef struct tri_text {
  char  *data; /* NUL-terminated, or NULL while empty */
  size_t len, cap;
} tri_text;
TRI_CHECKED tri_status tri_text_put(tri_text *t, const char *bytes, size_t n);
TRI_CHECKED tri_status tri_text_printf(tri_text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tri_text_free(tri_text *t);

/* Pure. Whether `text` ends with `end`. */
bool tri_ends_with(const char *text, const char *end);

/* The name of `known` nearest to `name` (edit distance, two neighbours swapped being one edit, at most a
 * third of its length, at least 2), or NULL. */
const char *tri_nearest(const char *name, const char *const *known, int n_known);
/* The same with at most so many edits. */
const char *tri_nearest_within(int edits, const char *name, const char *const *known, int n_known);

#endif
