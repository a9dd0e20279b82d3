/* rewrite.h - writes the command that converts a file, for messages. The user can type it as it stands. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REWRITE_H
#define TRI_REWRITE_H

#include "base/text_buffer.h"

/* Not collective. Appends two lines, each after a newline and two spaces. The first is "COMMAND FILE > NEW"
 * for a shell. The second says how to use NEW. The command also unpacks a file named *.gz or *.zst. NEW
 * does not exist yet. It is beside the file if this user may write there, else in the working folder.
 * `command` reads the file given as its last argument, or standard input. `key` is the deck's key of the
 * file. NULL: unknown. */
TRI_CHECKED tri_status tri_rewrite_put(const char *path, const char *command, const char *key, tri_text *out);

#endif
