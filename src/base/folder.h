/* folder.h - opens, creates and removes folders of a run. No link can lead out of them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_FOLDER_H
#define TRI_FOLDER_H

#include "error.h"

/* All that follow are not collective. Folders above the last part of a path may be links. The last part may
 * be a link only if its target folder belongs to this user, and the link to this user or root. Otherwise the
 * owner of a foreign link could choose the place of writes and removals. NFS and others map all users to one
 * owner. So a folder also counts as the user's if its owner is the owner of a new file of this user. To find
 * out, an empty file is created and removed. */

/* Opens the folder for calls such as openat. *fd is -1 if nothing exists there. TRI_EFILE: it is no folder or
 * cannot be opened. The caller closes *fd. */
TRI_CHECKED tri_status tri_folder_open(const char *path, int *fd);
/* Creates the folder with mode 0777 without the umask's bits, or finds it. TRI_EFILE. */
TRI_CHECKED tri_status tri_folder_make(const char *path);
/* Creates the missing folders above the path's last part. TRI_EFILE: one cannot be created. */
TRI_CHECKED tri_status tri_folder_make_above(const char *path);
/* Tells whether the folder is empty. TRI_EFILE: it cannot be read. */
TRI_CHECKED tri_status tri_folder_is_empty(const char *path, bool *empty);
/* Free bytes for this user in the open folder's file system. At most INT64_MAX, because some file systems
 * report unlimited space. -1: unknown. */
int64_t tri_folder_free_bytes(int fd);
/* Pure. Bytes of `blocks` blocks, at most INT64_MAX. */
int64_t tri_folder_bytes_of(uint64_t blocks, uint64_t block_bytes);
/* Renames a file, folder or link within its file system. TRI_EFILE: the new name cannot be had, or is taken.
 * Nothing is replaced. */
TRI_CHECKED tri_status tri_folder_set_aside(const char *path, const char *aside);

/* The functions below take the entry `name` of the open folder `at`, as openat does. With AT_FDCWD any path
 * will do. `path` is for messages. */

bool tri_folder_has(int at, const char *name); /* a link counts as itself, whatever its target */
bool tri_folder_has_link(int at, const char *name);
/* Checks that it is a folder of this user and no link to one. TRI_EFILE says what it is instead. */
TRI_CHECKED tri_status tri_folder_check_own(int at, const char *name, const char *path);
/* Removes a folder of files and links. The file `first` (NULL: none) is removed before the others. Links are
 * removed themselves and never followed. TRI_OK if nothing exists there. TRI_EFILE: it is no folder or
 * belongs to another user, and is unchanged, or an entry cannot be removed. */
TRI_CHECKED tri_status tri_folder_remove(int at, const char *name, const char *path, const char *first);

#endif
