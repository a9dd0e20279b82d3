/* columns.h - numbers and text formatted to a width for people. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COLUMNS_H
#define TRI_COLUMNS_H

#include "text_buffer.h"

enum { TRI_CELL_BYTES = 32, TRI_SCREEN_COLUMNS = 79 }; /* 79: never wraps on a terminal of 80 */

/* Pure, all of them. Formats a number in `width` columns, 4 <= width < TRI_CELL_BYTES. If it does not fit, it
 * gets fewer decimals, then a unit of a thousand, then an exponent. If this is too long too, numbers below 1
 * become 0 or -0, and others become #. "nan", "inf" and "-inf" are numbers too. */
void tri_cell_number(double x, int width, char out[TRI_CELL_BYTES]); /* 0.4312, 3.0e-5 */
void tri_cell_digits(double x, int width, char out[TRI_CELL_BYTES]); /* three digits: 0.00298, 7.34e-5 */
void tri_cell_count(double x, int width, char out[TRI_CELL_BYTES]);  /* 940, 12345, 1.2M */
void tri_cell_share(double x, int width, char out[TRI_CELL_BYTES]);  /* 0.25 gives "25%" */
void tri_cell_steps(int64_t step, int64_t steps, int width, char out[TRI_CELL_BYTES]); /* 12/100, 123456/1M */
/* Bytes in at most 8 columns with binary units: 940 B, 12.3 KiB, 1023 GiB. n >= 0. */
void tri_cell_bytes(int64_t n, char out[TRI_CELL_BYTES]);
/* Bytes of memory with more digits, for sums where little may be missing: 12.3 MiB, and from a GiB on 1.234
 * GiB. */
void tri_cell_memory(size_t n, char out[TRI_CELL_BYTES]);
/* Seconds in at most 6 columns: 59s, 59m59s, 99h59m, 99d23h, 9999d. Below 0 or not finite: 0s. */
void tri_cell_duration(double s, char out[TRI_CELL_BYTES]);

/* A column of a table. `width` is the wanted width and becomes the given one. It is at least `least`. */
typedef struct tri_column {
  const char *name; /* not longer than least */
  int         width, least;
} tri_column;
/* Not collective. Narrows the columns with the most spare width until the columns and the spaces between them
 * fit into `most`. */
void tri_columns_fit(tri_column *c, int n, int most);

/* Pure. Columns of UTF-8 text on a terminal. Wide characters count 2, and so do a few narrow ones. */
int tri_text_columns(const char *text, size_t n);
/* Pure. Copies the text to out [cap]. A longer text becomes its beginning, "..." and its end, in at most
 * `width` columns, width >= 5. */
void tri_text_shorten(const char *text, int width, char *out, size_t cap);
/* Appends the text to out and breaks its lines after at most `width` columns. A break comes after a colon,
 * comma or semicolon in the second half of the line, else at a space. Continued lines are indented by four. A
 * longer word gets a line of its own. A line that begins with exactly four spaces is a command to be typed
 * and stays whole. */
TRI_CHECKED tri_status tri_text_wrap(const char *text, int width, tri_text *out);
/* The same for the width of a screen. Adds the end of the line. */
TRI_CHECKED tri_status tri_text_line(const char *text, tri_text *out);
/* Formats a line as printf does, in a function that returns a status. */
#define TRI_LINE(out, ...)                                                                                   \
  do {                                                                                                       \
    tri_text   line_ = {0};                                                                                  \
    tri_status made_ = tri_text_printf(&line_, __VA_ARGS__);                                                 \
    if (made_ == TRI_OK) made_ = tri_text_line(line_.data, (out));                                           \
    tri_text_free(&line_);                                                                                   \
    TRI_TRY(made_);                                                                                          \
  } while (0)
/* Appends a word in the syntax of a shell. It is quoted if it has characters that are unusual in paths. Not
 * collective. */
TRI_CHECKED tri_status tri_text_put_word(tri_text *out, const char *word);

#endif
