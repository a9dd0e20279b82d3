/* bench_report.h - prints a bench's figures on one screen or as one JSON object. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_REPORT_H
#define TRI_BENCH_REPORT_H

#include "bench_run.h"

/* Not collective, both. deck: its path. NULL: none. The first prints at most 24 lines of 79 columns, if texts
 * are not unusually long. The second prints one object with units in its names. */
TRI_CHECKED tri_status tri_bench_print(const char *deck, const tri_bench_case *c, const tri_bench_result *r,
                                       tri_text *out);
TRI_CHECKED tri_status tri_bench_print_json(const char *deck, const tri_bench_case *c,
                                            const tri_bench_result *r, tri_text *out);
/* Pure. Appends a warning, one line without its newline, if the load per core in the last minute is above a
 * quarter. Otherwise, or if it is NAN, appends nothing. */
TRI_CHECKED tri_status tri_bench_warn(double load_per_core, tri_text *out);

#endif
