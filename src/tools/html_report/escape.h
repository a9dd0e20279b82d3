/* escape.h - text of others in a page: visible, and of no meaning to HTML. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_ESCAPE_H
#define TRI_PAGE_ESCAPE_H

#include "base/text_buffer.h"

/* Not collective. Appends text [n] as it may stand in an element or, between double quotes, in an
 * attribute: what visible.h shows is shown (control characters, marks of direction, bytes that are not
 * UTF-8), as are the two codes that XML has no space for; & < > " ' are references. lines: newlines and tabs
 * stay. */
TRI_CHECKED tri_status tri_html_put_bytes(tri_text *out, const char *text, size_t n, bool lines);
TRI_CHECKED tri_status tri_html_put(tri_text *out, const char *text);
/* Pure. The bytes of text [n] to show where at most `most` are to be: no character is cut. */
size_t tri_html_cut(const char *text, size_t n, size_t most);

#endif
