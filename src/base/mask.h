/* mask.h - secrets in addresses and command lines, replaced by *** wherever they are shown or stored. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_MASK_H
#define TRI_MASK_H

#include "text_buffer.h"

#define TRI_MASK "***"

/* Not collective. Appends an address with its secrets masked: name and password; the values of its query, but
 * for names that choose a model, a version or a format; path segments that are keys (sk-..., 20 random
 * letters and digits); its fragment. An address without a scheme will do. What is masked already stays as it
 * is. */
TRI_CHECKED tri_status tri_mask_url(const char *url, tri_text *out);
/* Not collective. Appends a text with masked addresses in it, and masked values of names such as api_key,
 * token and Authorization, as command lines, headers and YAML spell them: --api-key=X, --token X,
 * API_TOKEN=X, "X-Api-Key: X". */
TRI_CHECKED tri_status tri_mask_text(const char *text, tri_text *out);
/* Not collective. The same of one word of a command line; before: the word in front of it, or NULL. */
TRI_CHECKED tri_status tri_mask_word(const char *before, const char *word, tri_text *out);

/* The secrets of some addresses and words, to be found in what others write: zero-initialise. */
typedef struct tri_secrets {
  tri_text all; /* one behind the other, each with its NUL */
} tri_secrets;
/* Not collective. Adds what the functions above mask. */
TRI_CHECKED tri_status tri_secrets_add_url(tri_secrets *s, const char *url);
TRI_CHECKED tri_status tri_secrets_add_word(tri_secrets *s, const char *before, const char *word);
void                   tri_secrets_free(tri_secrets *s);
/* Copies the text [n] with every secret of three characters or more masked, as it is and with its % escapes
 * resolved. out [cap] ends with a NUL and is cut where it is full, never within a secret; it may be the text,
 * where cap > n. s may be NULL. Returns the bytes before the NUL. Any thread. */
size_t tri_secrets_copy(const tri_secrets *s, const char *text, size_t n, char *out, size_t cap);
/* The same in place; text[n], which becomes a NUL behind the shorter text, must be there. */
size_t tri_secrets_hide(const tri_secrets *s, char *text, size_t n);

#endif
