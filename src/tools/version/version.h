/* version.h - prints the version, the build and the libraries of this program (trireme --version). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_VERSION_H
#define TRI_VERSION_H

#include "base/error.h"

/* Not collective. Runs --version of the command line. Prints on rank 0. */
TRI_CHECKED tri_status tri_version_run(int argc, char **argv);

#endif
