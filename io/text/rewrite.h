/* rewrite.h - the command that rewrites a file, for messages: it works as it is typed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_REWRITE_H
#define TRI_REWRITE_H

#include "base/text_buffer.h"

/* Not collective. Appends two lines, each with a newline and two spaces before it: "COMMAND FILE > NEW", for
 * a shell, and what to do with NEW. The file is unpacked on the way where its name says that it is packed.
 * NEW does not exist yet; it is beside the file where this user may write there, else in the working folder.
 * command: reads a file that it is given last, or standard input. key: the deck's key that names the file;
 * NULL: it is not known. */
TRI_CHECKED tri_status tri_rewrite_put(const char *path, const char *command, const char *key, tri_text *out);

#endif
