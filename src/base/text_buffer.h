/* text_buffer.h - growable text, and texts copied and compared. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEXT_BUFFER_H
#define TRI_TEXT_BUFFER_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>

/* Copies the text. Free *out with tri_host_free. Not collective. */
TRI_CHECKED tri_status tri_copy_text(const char *text, char **out);

/* Growable text for messages and JSON. Zero-initialise it. tri_text_free leaves it zeroed. */
typedef struct tri_text {
  char  *data; /* NUL-terminated, or NULL while empty */
  size_t len, cap;
} tri_text;
TRI_CHECKED tri_status tri_text_put(tri_text *t, const char *bytes, size_t n);
TRI_CHECKED tri_status tri_text_printf(tri_text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tri_text_free(tri_text *t);

/* Pure. True if `text` ends with `end`. */
bool tri_ends_with(const char *text, const char *end);

/* Returns the name in `known` nearest to `name` by edit distance, or NULL. A swap of two neighbours is one
 * edit. At most a third of the name's letters may be edited, but 2 edits are always allowed. Names of fewer
 * than 4 letters allow half of them. */
const char *tri_nearest(const char *name, const char *const *known, int n_known);
/* The same with at most `edits` edits. */
const char *tri_nearest_within(int edits, const char *name, const char *const *known, int n_known);

#endif
