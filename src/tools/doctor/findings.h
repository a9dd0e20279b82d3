/* findings.h - what is wrong: check, level, where, what, and what to do. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FINDINGS_H
#define TRI_FINDINGS_H

#include "base/text_buffer.h"

typedef enum { TRI_LEVEL_ERROR, TRI_LEVEL_WARNING } tri_level;

typedef struct tri_finding {
  const char *check; /* a word, static: "reach" */
  tri_level   level;
  char       *where, *what, *cure; /* owned */
} tri_finding;

/* Zero-initialise; tri_findings_free leaves it zeroed. */
typedef struct tri_findings {
  tri_finding *item; /* [n] */
  int64_t      n, cap;
  int          errors;
  bool         blocks; /* one of them would end MPI, or make it wait for ever */
} tri_findings;

void        tri_findings_free(tri_findings *f);
const char *tri_level_text(tri_level level);

/* Adds a finding; where, what and cure are formatted in three calls. Texts of others are made visible. Not
 * collective. */
TRI_CHECKED tri_status tri_findings_add(tri_findings *f, const char *check, tri_level level,
                                        const char *where, ...) __attribute__((format(printf, 4, 5)));
/* Of the finding added last, each once. */
typedef enum { TRI_PART_WHAT, TRI_PART_CURE } tri_finding_part;
TRI_CHECKED tri_status tri_findings_say(tri_findings *f, tri_finding_part part, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends numbers as "0-3,8"; n of them, ascending. */
TRI_CHECKED tri_status tri_findings_ranges(tri_text *out, const int *x, int n);

#endif
