/* file.h - opening, reading and writing files so that none is waited for, followed or overwritten unasked. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FILE_H
#define TRI_FILE_H

#include "error.h"

/* All that follow are not collective. Modes of new files are 0666 without the umask's bits. */

/* Whether anything is there, behind a link too. */
bool tri_file_exists(const char *path);
bool tri_file_in(const char *folder, const char *name); /* of folder/name */
/* For reading: a regular file; links to one are followed, a FIFO never waits. TRI_EINPUT says what else it
 * is. The caller closes *fd. */
TRI_CHECKED tri_status tri_file_open(const char *path, int *fd);
/* As tri_file_open; *fd is -1 where nothing stands there. */
TRI_CHECKED tri_status tri_file_open_if(const char *path, int *fd);
/* As tri_file_open, of a path from the open folder `at`, as openat; shown: the path in messages. */
TRI_CHECKED tri_status tri_file_open_at(int at, const char *path, const char *shown, int *fd);
/* For writing: a new file, in the place of one or of a link that stands there, which is removed, never
 * followed or emptied. TRI_EFILE. The caller closes *fd. */
TRI_CHECKED tri_status tri_file_create(const char *path, int *fd);
/* For writing at the end: a regular file of this name, made where there is none; a link is refused. Where the
 * file has other names too (hard links, as `cp -al` makes them), a copy takes this name first, and they keep
 * theirs. TRI_EFILE. The caller closes *fd. */
TRI_CHECKED tri_status tri_file_append(const char *path, int *fd);

/* Read a whole regular file; a NUL is put behind the bytes. *out by tri_host_free. limit_bytes: larger files
 * are refused. */
TRI_CHECKED tri_status tri_file_read(const char *path, size_t limit_bytes, char **out, size_t *n_bytes);
/* As tri_file_read, of an open file that stays the caller's; path is for messages. */
TRI_CHECKED tri_status tri_file_read_open(int fd, const char *path, size_t limit_bytes, char **out,
                                          size_t *n_bytes);
/* All n bytes of an open file, from `offset` on. 0, or errno with a part of them written. */
int tri_file_put(int fd, const void *bytes, int64_t n, int64_t offset);
/* n bytes at the end of a file that tri_file_append opened: all of them, or TRI_EFILE and none, but where a
 * warning says so. path is for messages. */
TRI_CHECKED tri_status tri_file_put_end(int fd, const char *path, const void *bytes, size_t n);
/* Write path.tmp, flush, rename: whole or not at all. */
TRI_CHECKED tri_status tri_file_write(const char *path, const void *bytes, size_t n_bytes);
/* As tri_pieces_begin_named. */
TRI_CHECKED tri_status tri_file_write_named(const char *path, bool replaces, const void *bytes,
                                            size_t n_bytes);

enum { TRI_FILE_PATH_BYTES = 4096 };
/* The same in pieces. Zeroed: none is being written. */
typedef struct tri_file_pieces {
  bool    open;
  bool    keeps; /* what stands under its name */
  int     fd;
  int64_t bytes; /* so far */
  char    path[TRI_FILE_PATH_BYTES], tmp[TRI_FILE_PATH_BYTES];
} tri_file_pieces;
TRI_CHECKED tri_status tri_pieces_begin(const char *path, tri_file_pieces *out);
/* Under a name that a user gave: what is there under path.tmp is not touched, the temporary file is
 * path.XXXXXX.tmp and its own. replaces false: nor is what is under `path` when it ends, which is then
 * TRI_EFILE and names the temporary file, which stays. */
TRI_CHECKED tri_status tri_pieces_begin_named(const char *path, bool replaces, tri_file_pieces *out);
TRI_CHECKED tri_status tri_pieces_put(tri_file_pieces *f, const void *bytes, size_t n_bytes);
/* The file takes its name, or on failure is dropped. */
TRI_CHECKED tri_status tri_pieces_end(tri_file_pieces *f);
void                   tri_pieces_drop(tri_file_pieces *f); /* nothing is left of it; zeroed is legal */

#endif
