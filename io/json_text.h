/* json_text.h - JSON strings and numbers written into a text. Layer 1. */
#ifndef TRI_JSON_TEXT_H
#define TRI_JSON_TEXT_H

#include "base.h"

/* "..." with what JSON wants escaped; n bytes of UTF-8, which may hold NUL. TRI_EINTERNAL if they are not
 * UTF-8. */
TRI_CHECKED tri_status tri_json_put_string(tri_text *t, const char *s, size_t n);
/* As number.h writes it: the shortest text that reads back as the same double (same float). Not finite: null. */
TRI_CHECKED tri_status tri_json_put_double(tri_text *t, double x);
TRI_CHECKED tri_status tri_json_put_float(tri_text *t, float x);

#endif
