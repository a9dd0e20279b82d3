/* text_place.h - a range of bytes in a text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TEXT_PLACE_H
#define TRI_TEXT_PLACE_H

#include <stdint.h>

/* Bytes begin .. end - 1. */
typedef struct tri_text_place {
  uint32_t begin, end;
} tri_text_place;

#endif
