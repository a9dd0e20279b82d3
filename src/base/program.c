/* program.c - the program's name, as it was typed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"

static const char *program = "trireme";

void        tri_program_set(const char *argv0) { program = argv0 && argv0[0] ? argv0 : "trireme"; }
const char *tri_program(void) { return program; }
