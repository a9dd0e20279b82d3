/* html_report.h - compares runs in one HTML report, one screen of text or one JSON value. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HTML_REPORT_H
#define TRI_HTML_REPORT_H

#include "base/text_buffer.h"

typedef struct tri_html_report tri_html_report;

/* No function here is collective. None uses MPI. */

/* Reads the output folders of 1 to tri_html_report_most() runs. now_unix_s is in seconds since 1970. A folder
 * that is no output folder is left out, with a warning. TRI_EINPUT if all are left out. */
TRI_CHECKED tri_status tri_html_report_open(const char *const *folder, int n, double now_unix_s,
                                            tri_html_report **out);
int                    tri_html_report_left_out(const tri_html_report *p); /* number of folders left out */
void                   tri_html_report_close(tri_html_report **p);
int                    tri_html_report_most(void); /* most runs a report can tell apart */

/* Pure. Returns true if a file beginning with text [n >= TRI_HTML_BEGINS_BYTES] is an HTML report. */
enum { TRI_HTML_BEGINS_BYTES = 256 };
bool tri_html_report_is_one(const char *text, size_t n);

/* These append to out. The HTML is one self-contained file and also valid XML. Everything from the runs'
 * files appears in it as text. */
TRI_CHECKED tri_status tri_html_report_write(const tri_html_report *p, tri_text *out);
TRI_CHECKED tri_status tri_html_report_text(const tri_html_report *p, tri_text *out);
TRI_CHECKED tri_status tri_html_report_json(const tri_html_report *p, tri_text *out);

#endif
