/* mask.h - replaces secrets in addresses and command lines by *** wherever they are shown or stored. Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MASK_H
#define TRI_MASK_H

#include "text_buffer.h"

#define TRI_MASK "***"

/* Appends an address with its secrets masked. Secrets are the name and password, the fragment, the values of
 * the query, and path segments with keys (sk-..., 20 random letters and digits). Query values for a model, a
 * version or a format stay. The address may lack a scheme. Masked parts stay as they are. */
TRI_CHECKED tri_status tri_mask_url(const char *url, tri_text *out);
/* Appends a text with masked addresses. It also masks the values of names such as api_key, token and
 * Authorization in the syntax of command lines, headers and YAML: --api-key=X, --token X, API_TOKEN=X,
 * "X-Api-Key: X". */
TRI_CHECKED tri_status tri_mask_text(const char *text, tri_text *out);
/* The same for one word of a command line. before: the previous word, or NULL. */
TRI_CHECKED tri_status tri_mask_word(const char *before, const char *word, tri_text *out);

/* Secrets of addresses and words, to be found in other programs' output. Zero-initialise it. */
typedef struct tri_secrets {
  tri_text all; /* one behind the other, each with its NUL */
} tri_secrets;
/* Adds everything that the functions above mask. */
TRI_CHECKED tri_status tri_secrets_add_url(tri_secrets *s, const char *url);
TRI_CHECKED tri_status tri_secrets_add_word(tri_secrets *s, const char *before, const char *word);
void                   tri_secrets_free(tri_secrets *s);
/* Copies the text [n] and masks every secret of three characters or more, both as it is and with its %
 * escapes resolved. out [cap] ends with a NUL. If it is full, the text is cut, but never within a secret. out
 * may be the text if cap > n. s may be NULL. Returns the bytes before the NUL. Any thread may call it. */
size_t tri_secrets_copy(const tri_secrets *s, const char *text, size_t n, char *out, size_t cap);
/* The same in place. text[n] must exist, because a NUL is put behind the shorter text. */
size_t tri_secrets_hide(const tri_secrets *s, char *text, size_t n);

#endif
