/* findings.h - keeps a list of findings, each with check, level, place, cause and cure. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FINDINGS_H
#define TRI_FINDINGS_H

#include "base/text_buffer.h"

typedef enum { TRI_LEVEL_ERROR, TRI_LEVEL_WARNING } tri_level;

typedef struct tri_finding {
  const char *check; /* a static word, "reach" */
  tri_level   level;
  char       *where, *what, *cure; /* owned */
} tri_finding;

/* Initialise with zero. tri_findings_free leaves it zeroed. */
typedef struct tri_findings {
  tri_finding *item; /* [n] */
  int64_t      n, cap;
  int          errors;
  bool         blocks; /* a finding would end MPI or make it hang */
} tri_findings;

void        tri_findings_free(tri_findings *f);
const char *tri_level_text(tri_level level);

/* Adds a finding. Its place, cause and cure are formatted in three calls. Control characters in them are made
 * visible. Not collective. */
TRI_CHECKED tri_status tri_findings_add(tri_findings *f, const char *check, tri_level level,
                                        const char *where, ...) __attribute__((format(printf, 4, 5)));
/* Sets a part of the last finding, each part once. */
typedef enum { TRI_PART_WHAT, TRI_PART_CURE } tri_finding_part;
TRI_CHECKED tri_status tri_findings_say(tri_findings *f, tri_finding_part part, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends n ascending numbers as "0-3,8". */
TRI_CHECKED tri_status tri_findings_ranges(tri_text *out, const int *x, int n);

#endif
