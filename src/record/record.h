/* record.h - the record of a run: the program, products, libraries, nodes and variables that compute it. It
 * is one JSON object, in MANIFEST.json of each checkpoint as "record"; src/tools/version makes it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_RECORD_H
#define TRI_RECORD_H

#include "base/text_buffer.h"

/* None is collective. A record may come from any file: members of other types than ours are passed over. */

/* Append the record for people, a line for each fact, each with `lead` before it and a newline behind. */
TRI_CHECKED tri_status tri_record_lines(const char *record, const char *lead, tri_text *out);
/* Append "\n  name: before -> now" for each fact on which the bits of a run depend and that both records
 * know: program, compiler, products, collectives, processors, libraries that compute or communicate. */
TRI_CHECKED tri_status tri_record_differ(const char *before, const char *now, tri_text *out);

#endif
