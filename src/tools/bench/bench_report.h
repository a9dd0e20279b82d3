/* bench_report.h - a bench's figures: one screen, or one JSON object. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_BENCH_REPORT_H
#define TRI_BENCH_REPORT_H

#include "bench_run.h"

/* Not collective, both. deck: its path; NULL: none. For people: at most 24 lines of 79 columns, where text is
 * not longer than usual; for scripts: one object, units in the names. */
TRI_CHECKED tri_status tri_bench_print(const char *deck, const tri_bench_case *c, const tri_bench_result *r,
                                       tri_text *out);
TRI_CHECKED tri_status tri_bench_print_json(const char *deck, const tri_bench_case *c,
                                            const tri_bench_result *r, tri_text *out);
/* Pure. One line without its newline, where the load of a core in the last minute is above a quarter; else,
 * and where it is NAN, nothing is appended. */
TRI_CHECKED tri_status tri_bench_warn(double load_per_core, tri_text *out);

#endif
