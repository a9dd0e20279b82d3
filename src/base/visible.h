/* visible.h - text of others made safe for a terminal or a log. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_VISIBLE_H
#define TRI_VISIBLE_H

#include <stdarg.h>
#include <stddef.h>

enum { TRI_VISIBLE_MOST = 8 }; /* bytes that one character of the text becomes at most */

/* Copies `text` [n] so that it can be shown: control characters, line separators, marks that change the
 * direction of writing, and bytes that are not UTF-8 become \n, \t, \x1B or \u009B; all else stays.
 * Characters of `keep` ("", "\n", "\n\t") stay too. A backslash is not doubled, so what is visible already
 * does not change. out [cap] ends with a NUL; what does not fit is left out from a whole character on.
 * Returns the bytes written, without the NUL. Not collective. */
size_t tri_visible(const char *text, size_t n, const char *keep, char *out, size_t cap);

/* Pure. Bytes of the UTF-8 character that begins the text [n]; 0: it begins with none. */
size_t tri_character(const char *text, size_t n);

enum { TRI_MESSAGE_BYTES = 4096 }; /* chosen: a screen of text */
/* Formats and makes visible; of the newlines only those of fmt itself stay. They are found by formatting
 * twice with another character in their place: where the texts differ stood one. Not collective. */
void tri_visible_format(char out[TRI_MESSAGE_BYTES], const char *fmt, va_list ap);

#endif
