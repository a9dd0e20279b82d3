/* events.h - records of a TensorBoard event file: protobuf messages by hand, each in a frame with CRCs.
 *
 * Format: record_writer.cc and event.proto, summary.proto and tensor.proto of TensorFlow, as TensorBoard 2
 * reads them. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_EVENTS_H
#define TRI_EVENTS_H

#include "base/text_buffer.h"

/* Not collective, all that follow; they append bytes, which may hold NUL. */

/* A value of a summary: to the summary's bytes. */
TRI_CHECKED tri_status tri_events_put_scalar(tri_text *summary, const char *tag, float x);
TRI_CHECKED tri_status tri_events_put_text(tri_text *summary, const char *tag, const char *text, size_t n);
/* A record: to the file's bytes. wall_s: seconds since 1970. The version is a file's first; `start` takes
 * back, for who reads on from another file, what that has of `step` and later ones. */
TRI_CHECKED tri_status tri_events_put_version(tri_text *file, double wall_s);
TRI_CHECKED tri_status tri_events_put_start(tri_text *file, double wall_s, int64_t step);
TRI_CHECKED tri_status tri_events_put_summary(tri_text *file, double wall_s, int64_t step,
                                              const tri_text *summary);
/* Pure. CRC-32C (Castagnoli; RFC 3720, appendix B.4) of n bytes. */
uint32_t tri_events_crc(const void *bytes, size_t n);

#endif
