/* style.h - the page's one style sheet and one script, and the hashes by which its policy lets them in.
 * Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_PAGE_STYLE_H
#define TRI_PAGE_STYLE_H

/* Neither holds < or &, so that HTML and XML read the same. Colours: for people who do not tell red from
 * green, after Okabe and Ito, "Color Universal Design", 2008; what repeats a colour is dashed, then
 * dotted. */
extern const char *const tri_html_style, *const tri_html_script;
/* "sha256-...": what a browser reckons of the element's text (Content Security Policy Level 3, 2.3.1);
 * tests/html_report/test_html_report.c says what it must be. */
extern const char *const tri_html_style_hash, *const tri_html_script_hash;

enum { TRI_HTML_RUNS = 18 }; /* six colours, three kinds of line */

#endif
