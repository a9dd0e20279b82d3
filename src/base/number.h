/* number.h - formats numbers as the shortest text that reads back the same. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_NUMBER_H
#define TRI_NUMBER_H

enum { TRI_NUMBER_BYTES = 32 };

/* Not collective. Formats a finite x as a decimal for JSON, YAML and strtod. It has the fewest digits that
 * read back as the same double. For _f32 they read back as the same float, whether read as a double or not.
 * An integer below 2^53 has no point. -0 gives -0.0, because readers would take -0 for an integer. */
void tri_number_text(double x, char out[TRI_NUMBER_BYTES]);
void tri_number_text_f32(float x, char out[TRI_NUMBER_BYTES]);

#endif
