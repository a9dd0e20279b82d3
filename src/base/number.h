/* number.h - numbers as the shortest text that reads back the same. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_NUMBER_H
#define TRI_NUMBER_H

enum { TRI_NUMBER_BYTES = 32 };

/* Not collective. x, finite, as a decimal for JSON, YAML and strtod, with the fewest digits that read back as
 * the same double (the same float, read as a double or not). An integer below 2^53 stands without a point, -0
 * as -0.0, which no reader takes for an integer. */
void tri_number_text(double x, char out[TRI_NUMBER_BYTES]);
void tri_number_text_f32(float x, char out[TRI_NUMBER_BYTES]);

#endif
