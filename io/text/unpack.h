/* unpack.h - reads the bytes of a file, and unpacks gzip or zstd while reading. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_UNPACK_H
#define TRI_UNPACK_H

#include "base/error.h"

/* Not collective, all that follow. The first bytes of a file say if it is packed. Memory is bounded, and so
 * is the unpacked size of a small file. */
typedef struct tri_unpack tri_unpack;
/* `fd` is borrowed and stands at the start of the file. `path` is borrowed for messages. */
TRI_CHECKED tri_status tri_unpack_open(const char *path, int fd, tri_unpack **out);
void                   tri_unpack_close(tri_unpack **u);
bool                   tri_unpack_is_packed(const tri_unpack *u);
/* Returns the next *n bytes, borrowed until the next call. None: end of file. TRI_EFILE: reading failed.
 * TRI_EINPUT: the gzip or zstd data is damaged or cut off. */
TRI_CHECKED tri_status tri_unpack_read(tri_unpack *u, const char **bytes, size_t *n);
/* Continues at byte `at` of a file that is not packed. */
TRI_CHECKED tri_status tri_unpack_seek(tri_unpack *u, int64_t at);

#endif
