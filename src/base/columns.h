/* columns.h - numbers and text that keep to a width, for what people read. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COLUMNS_H
#define TRI_COLUMNS_H

#include "text_buffer.h"

enum { TRI_CELL_BYTES = 32, TRI_SCREEN_COLUMNS = 79 }; /* 79: a terminal of 80 never wraps it */

/* Pure, all of them. A number as it fits into `width` columns, 4 <= width < TRI_CELL_BYTES: with fewer
 * decimals, in parts of a thousand, with an exponent; where even that is too long, 0 or -0 for what is less
 * than 1, else #. "nan", "inf" and "-inf" are numbers too. */
void tri_cell_number(double x, int width, char out[TRI_CELL_BYTES]); /* 0.4312, 3.0e-5 */
void tri_cell_digits(double x, int width, char out[TRI_CELL_BYTES]); /* three of them: 0.00298, 7.34e-5 */
void tri_cell_count(double x, int width, char out[TRI_CELL_BYTES]);  /* 940, 12345, 1.2M */
void tri_cell_share(double x, int width, char out[TRI_CELL_BYTES]);  /* 0.25: "25%" */
void tri_cell_steps(int64_t step, int64_t steps, int width, char out[TRI_CELL_BYTES]); /* 12/100, 123456/1M */
/* Bytes in at most 8 columns, with binary units: 940 B, 12.3 KiB, 1023 GiB; n >= 0. */
void tri_cell_bytes(int64_t n, char out[TRI_CELL_BYTES]);
/* Bytes of memory where little may be missing: 12.3 MiB, from a GiB on 1.234 GiB. */
void tri_cell_memory(size_t n, char out[TRI_CELL_BYTES]);
/* At most 6 columns: 59s, 59m59s, 99h59m, 99d23h, 9999d. Less than 0 or not finite: 0s. */
void tri_cell_duration(double s, char out[TRI_CELL_BYTES]);

/* A column of a table: `width` is what it would like and becomes what it gets, at least `least`. */
typedef struct tri_column {
  const char *name; /* not longer than least */
  int         width, least;
} tri_column;
/* Not collective. Takes from those that can give most until the columns and the spaces between them fit into
 * `most`. */
void tri_columns_fit(tri_column *c, int n, int most);

/* Pure. Columns of UTF-8 text on a terminal, wide characters as 2 (a few narrow ones too). */
int tri_text_columns(const char *text, size_t n);
/* Pure. The text, or its beginning, "..." and its end in at most `width` columns, width >= 5. out [cap]. */
void tri_text_shorten(const char *text, int width, char *out, size_t cap);
/* Appends the text to out with its lines broken after at most `width` columns: behind a colon, comma or
 * semicolon of the line's second half, else at a space; what goes on is indented by four. A word that is
 * longer stands on a line of its own. A line that begins with just four spaces is a command to be typed: it
 * stays whole. */
TRI_CHECKED tri_status tri_text_wrap(const char *text, int width, tri_text *out);
/* The same to the width of a screen, and the end of a line. */
TRI_CHECKED tri_status tri_text_line(const char *text, tri_text *out);
/* A line as printf makes it, in a function that returns a status. */
#define TRI_LINE(out, ...)                                                                                   \
  do {                                                                                                       \
    tri_text   line_ = {0};                                                                                  \
    tri_status made_ = tri_text_printf(&line_, __VA_ARGS__);                                                 \
    if (made_ == TRI_OK) made_ = tri_text_line(line_.data, (out));                                           \
    tri_text_free(&line_);                                                                                   \
    TRI_TRY(made_);                                                                                          \
  } while (0)
/* Adds a word as a shell reads it: in quotes where it holds more than a path mostly does. Not collective. */
TRI_CHECKED tri_status tri_text_put_word(tri_text *out, const char *word);

#endif
