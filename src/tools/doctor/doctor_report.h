/* doctor_report.h - one screen, or one JSON value, of what was found. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DOCTOR_REPORT_H
#define TRI_DOCTOR_REPORT_H

#include "checks.h"

/* All borrowed. */
typedef struct tri_report {
  const tri_case     *c;
  const tri_findings *found;
  const tri_rate     *rate; /* [n_rate] */
  int                 n_rate;
  const char         *unmeasured; /* why there are no figures; NULL: there are */
} tri_report;

/* Pure, both. Appended to out: lines of at most 79 columns; one line. */
TRI_CHECKED tri_status tri_report_screen(const tri_report *r, tri_text *out);
TRI_CHECKED tri_status tri_report_json(const tri_report *r, tri_text *out);

#endif
