/* unpack.h - the bytes of a file, those of a gzip or zstd file unpacked as they are read. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_UNPACK_H
#define TRI_UNPACK_H

#include "base/error.h"

/* Not collective, all that follow. Which of them a file is, its first bytes say. Memory is bounded, and so is
 * what a small file unpacks to. */
typedef struct tri_unpack tri_unpack;
/* fd: borrowed, at the file's beginning; path, borrowed, is for messages. */
TRI_CHECKED tri_status tri_unpack_open(const char *path, int fd, tri_unpack **out);
void                   tri_unpack_close(tri_unpack **u);
bool                   tri_unpack_is_packed(const tri_unpack *u);
/* The next bytes, *n of them, borrowed until the next call; none at the end. TRI_EFILE: reading failed;
 * TRI_EINPUT: it is no whole gzip or zstd file. */
TRI_CHECKED tri_status tri_unpack_read(tri_unpack *u, const char **bytes, size_t *n);
/* Goes on at byte `at` of a file that is not packed. */
TRI_CHECKED tri_status tri_unpack_seek(tri_unpack *u, int64_t at);

#endif
