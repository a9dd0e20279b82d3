/* page.h - runs compared, for people: one page of HTML, one screen of text, one JSON value. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_H
#define TRI_PAGE_H

#include "base/base.h"

typedef struct tri_page tri_page;

/* Not collective, all that follow; no MPI. */

/* Reads the output folders of 1 to tri_page_most() runs. now_unix_s: seconds since 1970. One that is
 * no output folder is left out, with a warning. TRI_EINPUT: all are so. */
TRI_CHECKED tri_status tri_page_open(const char *const *folder, int n, double now_unix_s, tri_page **out);
int                    tri_page_left_out(const tri_page *p); /* how many */
void                   tri_page_close(tri_page **p);
int                    tri_page_most(void); /* runs that a page can tell apart */

/* Pure. Whether a file that begins with text [n >= TRI_PAGE_BEGINS_BYTES] is such a page of HTML. */
enum { TRI_PAGE_BEGINS_BYTES = 256 };
bool tri_page_is_one(const char *text, size_t n);

/* Append to out. HTML: one file that needs no other and reads as XML too; whatever the runs' files hold is
 * text in it. */
TRI_CHECKED tri_status tri_page_html(const tri_page *p, tri_text *out);
TRI_CHECKED tri_status tri_page_text(const tri_page *p, tri_text *out);
TRI_CHECKED tri_status tri_page_json(const tri_page *p, tri_text *out);

#endif
