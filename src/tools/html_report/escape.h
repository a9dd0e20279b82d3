/* escape.h - writes foreign text into an HTML report, visible and without a meaning to HTML. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_ESCAPE_H
#define TRI_PAGE_ESCAPE_H

#include "base/text_buffer.h"

/* Not collective. Appends text [n] in a form valid in an element or, between double quotes, in an attribute.
 * Control characters, marks of direction and bytes outside UTF-8 become visible as in visible.h. So do U+FFFE
 * and U+FFFF, which XML does not permit. The characters & < > " ' become references. With `lines`, newlines
 * and tabs stay. */
TRI_CHECKED tri_status tri_html_put_bytes(tri_text *out, const char *text, size_t n, bool lines);
TRI_CHECKED tri_status tri_html_put(tri_text *out, const char *text);
/* Pure. Returns the length of the beginning of text [n] to show, at most `most` bytes and with no character
 * cut. */
size_t tri_html_cut(const char *text, size_t n, size_t most);

#endif
