/* about.h - what is told of this program, its build, its libraries and its machine. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ABOUT_H
#define TRI_ABOUT_H

#include "base/error.h"

enum { TRI_ABOUT_TEXT_BYTES = 96, TRI_ABOUT_LIBRARIES = 16, TRI_ABOUT_GPUS = 64 };

/* Of the tree that this was built from, by packaging/commit.cmake: "" where it is none of git's; "+" at its
 * end: with changes. */
extern const char tri_about_commit[];

/* "": not known, or not there. */
typedef struct tri_about_library {
  const char *name;
  char        built[TRI_ABOUT_TEXT_BYTES], loaded[TRI_ABOUT_TEXT_BYTES];
} tri_about_library;

typedef struct tri_about {
  const char *compiler, *type, *flags, *made_for; /* of the build; made_for: the compiler's instructions */
  char        cpu[TRI_ABOUT_TEXT_BYTES];          /* its maker's name for it */
  int         threads, threads_online;            /* hardware threads of this process, of the machine */
  char        instructions[TRI_ABOUT_TEXT_BYTES]; /* that products choose here */
  int         n_gpu;
  char        gpu[TRI_ABOUT_GPUS][TRI_ABOUT_TEXT_BYTES];
  int         n_library;
  tri_about_library library[TRI_ABOUT_LIBRARIES];
} tri_about;

/* Not collective, before MPI is up or after. Asks what was loaded. */
TRI_CHECKED tri_status tri_about_gather(tri_about *out);
/* Not collective. The maker's name for the first processor of this machine; "": the system does not tell. */
void tri_about_find_cpu(char out[TRI_ABOUT_TEXT_BYTES]);
/* Pure. Whether the loaded library is another than that of the build, as far as both are known. */
bool tri_about_differs(const tri_about_library *l);

#endif
