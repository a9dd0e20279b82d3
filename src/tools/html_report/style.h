/* style.h - the style sheet and the script of an HTML report, and their hashes for its security policy.
 * Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_STYLE_H
#define TRI_PAGE_STYLE_H

/* Neither contains < or &, so that HTML and XML read them alike. The colours suit people with red-green
 * blindness, after Okabe and Ito, "Color Universal Design", 2008. Lines that repeat a colour are dashed, then
 * dotted. */
extern const char *const tri_html_style, *const tri_html_script;
/* "sha256-..." is the hash a browser computes from the element's text (Content Security Policy Level 3,
 * 2.3.1). tests/html_report/test_html_report.c prints the right value. */
extern const char *const tri_html_style_hash, *const tri_html_script_hash;

enum { TRI_HTML_RUNS = 18 }; /* six colours, three kinds of line */

#endif
