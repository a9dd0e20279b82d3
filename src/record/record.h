/* record.h - the record of a run: the program, products, libraries, nodes and variables that compute it.
 * The record is one JSON object, "record" in MANIFEST.json of each checkpoint. src/tools/version makes it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RECORD_H
#define TRI_RECORD_H

#include "base/text_buffer.h"

/* No function is collective. A record may come from any file, so members of unexpected types are ignored. */

/* Appends the record for people, one line per fact, with `lead` in front and a newline behind. */
TRI_CHECKED tri_status tri_record_lines(const char *record, const char *lead, tri_text *out);
/* Appends "\n name: before -> now" for each fact known to both records and relevant for the bits of a run:
 * program, compiler, products, collectives, processors, libraries for computation or communication. */
TRI_CHECKED tri_status tri_record_differ(const char *before, const char *now, tri_text *out);

#endif
