/* file.h - opens, reads and writes files. Never blocks on a file, follows a link for writing, or overwrites
 * unasked. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FILE_H
#define TRI_FILE_H

#include "error.h"

/* All that follow are not collective. New files have mode 0666 without the umask's bits. */

/* True if anything exists at the path. Links are followed. */
bool tri_file_exists(const char *path);
bool tri_file_in(const char *folder, const char *name); /* tests folder/name */
/* Opens a regular file for reading. Links to one are followed, and a FIFO never blocks. TRI_EINPUT names the
 * kind of anything else. The caller closes *fd. */
TRI_CHECKED tri_status tri_file_open(const char *path, int *fd);
/* As tri_file_open, but *fd is -1 if nothing exists there. */
TRI_CHECKED tri_status tri_file_open_if(const char *path, int *fd);
/* As tri_file_open, for a path relative to the open folder `at`, as openat does. `shown` is the path for
 * messages. */
TRI_CHECKED tri_status tri_file_open_at(int at, const char *path, const char *shown, int *fd);
/* Creates a new file for writing. An existing file or link is removed, never followed or emptied. TRI_EFILE.
 * The caller closes *fd. */
TRI_CHECKED tri_status tri_file_create(const char *path, int *fd);
/* Opens a regular file for appending, and creates it if it is missing. A link is refused. If the file has
 * other names too (hard links, as from `cp -al`), a copy takes this name first, and the others keep the old
 * file. TRI_EFILE. The caller closes *fd. */
TRI_CHECKED tri_status tri_file_append(const char *path, int *fd);

/* Reads a whole regular file and puts a NUL behind the bytes. Free *out with tri_host_free. Files larger than
 * limit_bytes are refused. */
TRI_CHECKED tri_status tri_file_read(const char *path, size_t limit_bytes, char **out, size_t *n_bytes);
/* As tri_file_read, for an open file of the caller. path is for messages. */
TRI_CHECKED tri_status tri_file_read_open(int fd, const char *path, size_t limit_bytes, char **out,
                                          size_t *n_bytes);
/* Writes all n bytes to an open file, from `offset` on. Returns 0, or errno with a part of them written. */
int tri_file_put(int fd, const void *bytes, int64_t n, int64_t offset);
/* Appends n bytes to a file opened by tri_file_append. Either all are written, or TRI_EFILE and none. A
 * warning says so if a part could not be removed. path is for messages. */
TRI_CHECKED tri_status tri_file_put_end(int fd, const char *path, const void *bytes, size_t n);
/* Writes path.tmp, flushes it and renames it. The file is complete or absent. */
TRI_CHECKED tri_status tri_file_write(const char *path, const void *bytes, size_t n_bytes);
/* The same by tri_pieces_begin_named. */
TRI_CHECKED tri_status tri_file_write_named(const char *path, bool replaces, const void *bytes,
                                            size_t n_bytes);

enum { TRI_FILE_PATH_BYTES = 4096 };
/* Writes such a file in pieces. Zeroed: none is being written. */
typedef struct tri_file_pieces {
  bool    open;
  bool    keeps; /* an existing file of this name stays */
  int     fd;
  int64_t bytes; /* written so far */
  char    path[TRI_FILE_PATH_BYTES], tmp[TRI_FILE_PATH_BYTES];
} tri_file_pieces;
TRI_CHECKED tri_status tri_pieces_begin(const char *path, tri_file_pieces *out);
/* For a name given by the user. An existing path.tmp is not touched, because the temporary file is
 * path.XXXXXX.tmp. With `replaces` false, a file of this name at the end is not touched either. The result is
 * then TRI_EFILE. The message names the temporary file, and it stays. */
TRI_CHECKED tri_status tri_pieces_begin_named(const char *path, bool replaces, tri_file_pieces *out);
TRI_CHECKED tri_status tri_pieces_put(tri_file_pieces *f, const void *bytes, size_t n_bytes);
/* Gives the file its name. On failure the file is dropped. */
TRI_CHECKED tri_status tri_pieces_end(tri_file_pieces *f);
void                   tri_pieces_drop(tri_file_pieces *f); /* leaves no trace. Zeroed is legal */

#endif
