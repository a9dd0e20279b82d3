/* visible.h - makes foreign text safe for a terminal or a log. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_VISIBLE_H
#define TRI_VISIBLE_H

#include <stdarg.h>
#include <stddef.h>

enum { TRI_VISIBLE_MOST = 8 }; /* the most bytes that one character can become */

/* Copies `text` [n] in a form safe to show. Control characters, line separators, marks of writing direction,
 * and bytes outside UTF-8 become \n, \t, \x1B or \u009B. All else stays, and so do the characters in `keep`
 * ("", "\n", "\n\t"). Backslashes are not doubled, so visible text does not change. out [cap] ends with a
 * NUL. If it is full, the rest is dropped from a whole character on. Returns the bytes written, without the
 * NUL. Not collective. */
size_t tri_visible(const char *text, size_t n, const char *keep, char *out, size_t cap);

/* Pure. Bytes of the UTF-8 character at the beginning of text [n]. 0: there is none. */
size_t tri_character(const char *text, size_t n);

enum { TRI_MESSAGE_BYTES = 4096 }; /* chosen: a screen of text */
/* Formats and makes visible. Only the newlines of fmt itself stay. To find them, the text is formatted twice
 * with two different characters in their place. They are at the places where the two texts differ. Not
 * collective. */
void tri_visible_format(char out[TRI_MESSAGE_BYTES], const char *fmt, va_list ap);

#endif
