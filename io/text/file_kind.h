/* file_kind.h - what a file is that is not what was expected, from its first bytes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FILE_KIND_H
#define TRI_FILE_KIND_H

#include <stddef.h>

/* Not collective, both: for a file that begins with these bytes what it is and what to do, to go on behind
 * "FILE: is ", and behind a newline the command that rewrites it (rewrite.h), if there is one; NULL: nothing
 * speaks against what was expected, JSON lines or a file of a model (safetensors, JSON). */
const char *tri_lines_kind(const char *bytes, size_t n);
const char *tri_model_kind(const char *bytes, size_t n);

#endif
