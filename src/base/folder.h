/* folder.h - folders of a run: opened, made and removed so that no link leads out of them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FOLDER_H
#define TRI_FOLDER_H

#include "error.h"

/* All that follow are not collective. Folders above the last part of a path may be links; the last part may
 * be one only where the folder belongs to the user who runs the program, and the link to that user or root:
 * another's link would decide what is written or removed. A user's is also what has the owner that the file
 * system gives to what the user makes there (NFS and others map all users to one); to find out, an empty file
 * is made and removed. */

/* *fd: the folder, for calls as openat, -1 where nothing stands there. TRI_EFILE: it is no folder, or cannot
 * be opened. The caller closes *fd. */
TRI_CHECKED tri_status tri_folder_open(const char *path, int *fd);
/* The folder is there afterwards: made with mode 0777 without the umask's bits, or found. TRI_EFILE. */
TRI_CHECKED tri_status tri_folder_make(const char *path);
/* The folders above the path's last part are there afterwards. TRI_EFILE: one cannot be made. */
TRI_CHECKED tri_status tri_folder_make_above(const char *path);
/* Whether there is nothing in the folder. TRI_EFILE: it cannot be read. */
TRI_CHECKED tri_status tri_folder_is_empty(const char *path, bool *empty);
/* Bytes that are free for this user in the open folder's file system, at most INT64_MAX, for some say that
 * they have space without end; -1: it does not tell. */
int64_t tri_folder_free_bytes(int fd);
/* Pure. Bytes of so many blocks, at most INT64_MAX. */
int64_t tri_folder_bytes_of(uint64_t blocks, uint64_t block_bytes);
/* Another name in the same file system for a file, folder or link. TRI_EFILE: it cannot be had, or is taken:
 * what stands there is not replaced. */
TRI_CHECKED tri_status tri_folder_set_aside(const char *path, const char *aside);

/* The entry `name` of the open folder `at` (AT_FDCWD, and any path: as openat). `path` is for messages. */

bool tri_folder_has(int at, const char *name); /* a link counts as itself, wherever it leads */
bool tri_folder_has_link(int at, const char *name);
/* Is it a folder, no link to one, and this user's? TRI_EFILE says what it is else. */
TRI_CHECKED tri_status tri_folder_check_own(int at, const char *name, const char *path);
/* Removes a folder of files and links, the file `first` (NULL: none) before the others. A link in its place
 * or in it is removed itself, never followed. TRI_OK when nothing stands there. TRI_EFILE: it is no folder,
 * or another user's, and as it was; or something in it cannot be removed. */
TRI_CHECKED tri_status tri_folder_remove(int at, const char *name, const char *path, const char *first);

#endif
