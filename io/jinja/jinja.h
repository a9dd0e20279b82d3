/* jinja.h - templates in the language of Jinja2, set up as transformers sets it up for chat templates
 * (transformers 5.24, utils/chat_template_utils.py): sandboxed, trim_blocks, lstrip_blocks, loop controls,
 * {% generation %}; its tojson, raise_exception, strftime_now. Knows nothing of chats. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_H
#define TRI_JINJA_H

#include <jansson.h>

#include "base/text_buffer.h"

/* A template, parsed. Read-only once open. */
typedef struct tri_jinja tri_jinja;

/* Bytes begin .. end - 1 of a rendered text, which stood in a {% generation %} block. */
typedef struct tri_jinja_span {
  size_t begin, end;
} tri_jinja_span;

/* Zero-initialise; tri_jinja_text_free leaves it zeroed. */
typedef struct tri_jinja_text {
  tri_text        text;
  tri_jinja_span *span; /* [n_span] in their order */
  int64_t         n_span, cap;
} tri_jinja_text;
void tri_jinja_text_free(tri_jinja_text *t);

/* Not collective. Parses text [n], UTF-8, which is copied. TRI_EINPUT, with "line N: " in front: it is no
 * template, or has what is not supported, which is named. */
TRI_CHECKED tri_status tri_jinja_open(const char *text, size_t n, tri_jinja **out);
void                   tri_jinja_close(tri_jinja **t); /* accepts NULL */
/* Not collective. Whether the template has {% generation %} blocks. */
bool tri_jinja_marks(const tri_jinja *t);
/* Not collective. Whether the template reads a variable of this name anywhere. */
bool tri_jinja_reads(const tri_jinja *t, const char *name);

/* Not collective. The template with these variables (an object, borrowed; null is None) into *out, whose
 * content is replaced. date: the day that strftime_now says, "2026-11-29", at midnight; NULL: that function
 * is refused. A list under the name `content`, each element of which is a mapping that has a string `text`
 * and "type": "text", stands for the joined texts wherever the template takes it for a string. TRI_EINPUT,
 * with "line N: " in front: what the template raises, an error of the template, or a limit: 10^7 steps and
 * 64 MiB (of all values it makes, of the text), for each byte of the variables 100 steps and 8 bytes more;
 * 1,000 levels. */
TRI_CHECKED tri_status tri_jinja_render(const tri_jinja *t, const json_t *variables, const char *date,
                                        tri_jinja_text *out);

#endif
