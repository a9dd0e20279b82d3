/* child_script.h - checks that the files named by a command exist, without running any of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHILD_SCRIPT_H
#define TRI_CHILD_SCRIPT_H

#include "error.h"

/* Not collective. Checks a command of n words. word[0] is checked by tri_child_check. If it is a known
 * interpreter (python3, bash, perl, ..., also after env), its script must exist and be readable. Words after
 * -c, -e or -m are no files and are skipped. If word[0] is a script itself, the interpreter in its first line
 * must exist. Runs nothing. TRI_ECONFIG: a file is missing, and the message names it. */
TRI_CHECKED tri_status tri_child_check_command(const char *const *word, int n);

#endif
