/* events.h - writes records of a TensorBoard event file, which are protobuf messages in frames with CRCs.
 *
 * The format is record_writer.cc, event.proto, summary.proto and tensor.proto of TensorFlow, as TensorBoard 2
 * reads them. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EVENTS_H
#define TRI_EVENTS_H

#include "base/text_buffer.h"

/* Not collective, all of the functions below. They append bytes, which may include NUL. */

/* Append a value to the summary's bytes. */
TRI_CHECKED tri_status tri_events_put_scalar(tri_text *summary, const char *tag, float x);
TRI_CHECKED tri_status tri_events_put_text(tri_text *summary, const char *tag, const char *text, size_t n);
/* Append a record to the file's bytes. wall_s is seconds since 1970. The version is the first record of a
 * file. `start` tells readers of several files to drop events of `step` and later from earlier files. */
TRI_CHECKED tri_status tri_events_put_version(tri_text *file, double wall_s);
TRI_CHECKED tri_status tri_events_put_start(tri_text *file, double wall_s, int64_t step);
TRI_CHECKED tri_status tri_events_put_summary(tri_text *file, double wall_s, int64_t step,
                                              const tri_text *summary);
/* Pure. Returns the CRC-32C (Castagnoli, RFC 3720, appendix B.4) of n bytes. */
uint32_t tri_events_crc(const void *bytes, size_t n);

#endif
