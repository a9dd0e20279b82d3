/* about.h - gathers facts about this program, its build, its libraries and its machine. Private to its room.
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ABOUT_H
#define TRI_ABOUT_H

#include "base/error.h"

enum { TRI_ABOUT_TEXT_BYTES = 96, TRI_ABOUT_LIBRARIES = 16, TRI_ABOUT_GPUS = 64 };

/* Commit of the source tree, from packaging/commit.cmake. "": no git tree. "+" at its end: with changes. */
extern const char tri_about_commit[];

/* A library with its versions. "": not known, or not there. */
typedef struct tri_about_library {
  const char *name;
  char        built[TRI_ABOUT_TEXT_BYTES], loaded[TRI_ABOUT_TEXT_BYTES];
} tri_about_library;

typedef struct tri_about {
  const char       *compiler, *type, *flags, *made_for; /* made_for: instructions the compiler may use */
  char              cpu[TRI_ABOUT_TEXT_BYTES];          /* the maker's name */
  int               threads, threads_online;            /* hardware threads of this process, of the machine */
  char              instructions[TRI_ABOUT_TEXT_BYTES]; /* instructions of the products here */
  int               n_gpu;
  char              gpu[TRI_ABOUT_GPUS][TRI_ABOUT_TEXT_BYTES];
  int               n_library;
  tri_about_library library[TRI_ABOUT_LIBRARIES];
} tri_about;

/* Not collective, before MPI is up or after. Asks the loaded libraries. */
TRI_CHECKED tri_status tri_about_gather(tri_about *out);
/* Writes the maker's name of the first processor of this machine. "": not known. */
void tri_about_find_cpu(char out[TRI_ABOUT_TEXT_BYTES]);
/* Pure. Returns whether the loaded library differs from the one of the build, if both are known. */
bool tri_about_differs(const tri_about_library *l);

#endif
