/* version.h - what this program is, how it was built and what it runs with: trireme --version. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_VERSION_H
#define TRI_VERSION_H

#include "base/error.h"

/* Not collective. What is behind --version on the command line: prints on rank 0. */
TRI_CHECKED tri_status tri_version_run(int argc, char **argv);

#endif
