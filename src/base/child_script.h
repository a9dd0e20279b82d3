/* child_script.h - whether the files that a command names are there, without running any of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHILD_SCRIPT_H
#define TRI_CHILD_SCRIPT_H

#include "error.h"

/* Not collective. Checks the program word[0] of a command of n words as tri_child_check does. Where it is a
 * known interpreter (python3, bash, perl, ...; also behind env), its script must be there and readable; what
 * follows -c, -e or -m is no file and is not looked at. Where it is a script itself, the interpreter of its
 * first line must be there. Runs nothing. TRI_ECONFIG, naming the file. */
TRI_CHECKED tri_status tri_child_check_command(const char *const *word, int n);

#endif
