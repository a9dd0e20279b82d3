/* visible.h - text of others made safe for a terminal or a log. */
#ifndef TRI_VISIBLE_H
#define TRI_VISIBLE_H

#include <stddef.h>

enum { TRI_VISIBLE_MOST = 8 }; /* bytes that one character of the text becomes at most */

/* Copies `text` [n] so that it can be shown: control characters, line separators, marks that change the
 * direction of writing, and bytes that are not UTF-8 become \n, \t, \x1B or \u009B; all else stays.
 * Characters of `keep` ("", "\n", "\n\t") stay too. A backslash is not doubled, so what is visible already
 * does not change. out [cap] ends with a NUL; what does not fit is left out from a whole character on.
 * Returns the bytes written, without the NUL. Not collective. */
size_t tri_visible(const char *text, size_t n, const char *keep, char *out, size_t cap);

#endif
