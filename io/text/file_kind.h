/* file_kind.h - recognises unsupported files by their first bytes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FILE_KIND_H
#define TRI_FILE_KIND_H

#include <stddef.h>

/* Not collective, both. Return the kind of a file with these first bytes and the cure, to follow "FILE: is ".
 * A command to convert the file (rewrite.h) may follow after a newline. NULL: the bytes may be the expected
 * format, JSON lines or a model file (safetensors, JSON). */
const char *tri_lines_kind(const char *bytes, size_t n);
const char *tri_model_kind(const char *bytes, size_t n);

#endif
