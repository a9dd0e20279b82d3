/* jinja.h - parses and renders Jinja2 templates, configured as transformers configures Jinja for chat
 * templates (transformers 5.24, utils/chat_template_utils.py): sandboxed, with trim_blocks, lstrip_blocks,
 * loop controls and {% generation %}, and with its tojson, raise_exception and strftime_now. It knows nothing
 * of chats. Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_H
#define TRI_JINJA_H

#include <jansson.h>

#include "base/text_buffer.h"

/* A parsed template. Read-only once open. */
typedef struct tri_jinja tri_jinja;

/* Bytes begin .. end - 1 of a rendered text, written by a {% generation %} block. */
typedef struct tri_jinja_span {
  size_t begin, end;
} tri_jinja_span;

/* A rendered text. Zero-initialise. tri_jinja_text_free leaves it zeroed. */
typedef struct tri_jinja_text {
  tri_text        text;
  tri_jinja_span *span; /* [n_span] in order */
  int64_t         n_span, cap;
} tri_jinja_text;
void tri_jinja_text_free(tri_jinja_text *t);

/* Parses text [n] in UTF-8 and copies it. TRI_EINPUT, with "line N: " in front: it is no template, or uses an
 * unsupported feature. The message names the feature. */
TRI_CHECKED tri_status tri_jinja_open(const char *text, size_t n, tri_jinja **out);
void                   tri_jinja_close(tri_jinja **t); /* accepts NULL */
/* Says if the template has {% generation %} blocks. */
bool tri_jinja_marks(const tri_jinja *t);
/* Says if the template reads a variable of this name anywhere. */
bool tri_jinja_reads(const tri_jinja *t, const char *name);

/* Renders the template with these variables (an object, borrowed, null is None) into *out, and replaces the
 * content of *out. `date` is the day for strftime_now, such as "2026-11-29", at midnight. With NULL,
 * strftime_now is refused. A list under the key `content` whose elements are all mappings with a string
 * `text` and "type": "text" acts as the joined texts if the template uses it as a string. TRI_EINPUT, with
 * "line N: " in front: the template raised an error, has an error, or reached a limit. The limits are 10^7
 * steps, 1,000 levels, and 64 MiB each for all values it makes and for the text. Every byte of the variables
 * adds 100 steps and 8 bytes. */
TRI_CHECKED tri_status tri_jinja_render(const tri_jinja *t, const json_t *variables, const char *date,
                                        tri_jinja_text *out);

#endif
