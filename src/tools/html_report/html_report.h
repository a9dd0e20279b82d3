/* html_report.h - runs compared, for people: one page of HTML, one screen of text, one JSON value. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HTML_REPORT_H
#define TRI_HTML_REPORT_H

#include "base/text_buffer.h"

typedef struct tri_html_report tri_html_report;

/* Not collective, all that follow; no MPI. */

/* Reads the output folders of 1 to tri_html_report_most() runs. now_unix_s: seconds since 1970. One that is
 * no output folder is left out, with a warning. TRI_EINPUT: all are so. */
TRI_CHECKED tri_status tri_html_report_open(const char *const *folder, int n, double now_unix_s,
                                            tri_html_report **out);
int                    tri_html_report_left_out(const tri_html_report *p); /* how many */
void                   tri_html_report_close(tri_html_report **p);
int                    tri_html_report_most(void); /* runs that a page can tell apart */

/* Pure. Whether a file that begins with text [n >= TRI_HTML_BEGINS_BYTES] is such a page of HTML. */
enum { TRI_HTML_BEGINS_BYTES = 256 };
bool tri_html_report_is_one(const char *text, size_t n);

/* Append to out. HTML: one file that needs no other and reads as XML too; whatever the runs' files hold is
 * text in it. */
TRI_CHECKED tri_status tri_html_report_write(const tri_html_report *p, tri_text *out);
TRI_CHECKED tri_status tri_html_report_text(const tri_html_report *p, tri_text *out);
TRI_CHECKED tri_status tri_html_report_json(const tri_html_report *p, tri_text *out);

#endif
