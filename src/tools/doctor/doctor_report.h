/* doctor_report.h - prints the findings on one screen or as one JSON value. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DOCTOR_REPORT_H
#define TRI_DOCTOR_REPORT_H

#include "checks.h"

/* All pointers are borrowed. */
typedef struct tri_report {
  const tri_case     *c;
  const tri_findings *found;
  const tri_rate     *rate; /* [n_rate] */
  int                 n_rate;
  const char         *unmeasured; /* reason why nothing was measured. NULL: it was */
} tri_report;

/* Pure, both. Append lines of at most 79 columns, and one line of JSON. */
TRI_CHECKED tri_status tri_report_screen(const tri_report *r, tri_text *out);
TRI_CHECKED tri_status tri_report_json(const tri_report *r, tri_text *out);

#endif
