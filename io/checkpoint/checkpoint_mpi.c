/* checkpoint_mpi.c - what HDF5 does with MPI: is it in the library that is loaded, and paths that MPI-IO
 * takes as they are. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE /* dladdr, RTLD_DEFAULT, O_PATH */
#include "checkpoint_impl.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A program whose loader looks for all names at once must start with an HDF5 that lacks these, to say so. */
#pragma weak H5Pset_fapl_mpio
#pragma weak H5Pset_dxpl_mpio
#pragma weak H5Pset_coll_metadata_write
#pragma weak H5Pset_all_coll_metadata_ops

/* The library's file. "HDF5": nothing tells it. */
static const char *library_of(void *function) {
  Dl_info info;

  return function && dladdr(function, &info) && info.dli_fname ? info.dli_fname : "HDF5";
}

/* HDF5 ends the process by SIGABRT where it is not the version of its headers (H5check_version; until 1.12 to
 * the last number). */
static tri_status check_version(const char *library) {
  const char *unchecked = getenv("HDF5_DISABLE_VERSION_CHECK");
  unsigned    major, minor, release;
  bool        exact = H5_VERS_MAJOR == 1 && H5_VERS_MINOR <= 12;

  if (unchecked && unchecked[0] >= '1' && unchecked[0] <= '9') return TRI_OK;
  if (H5get_libversion(&major, &minor, &release) < 0) return TRI_OK;
  if (major == H5_VERS_MAJOR && minor == H5_VERS_MINOR && (!exact || release == H5_VERS_RELEASE))
    return TRI_OK;
  TRI_FAIL(TRI_EDEVICE,
           "%s is HDF5 %u.%u.%u, and this program was built with %d.%d.%d: no checkpoint could be written; "
           "look at LD_LIBRARY_PATH (conda, another module)",
           library, major, minor, release, H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
}

tri_status tri_ckpt_check_library(void) {
  void       *any = dlsym(RTLD_DEFAULT, "H5open"); /* NULL: a part of this program, and all of it there */
  const char *library = library_of(any);

  dlerror();
  if (any && (!dlsym(RTLD_DEFAULT, "H5Pset_fapl_mpio") || !dlsym(RTLD_DEFAULT, "H5Pset_dxpl_mpio") ||
              !dlsym(RTLD_DEFAULT, "H5Pset_coll_metadata_write") ||
              !dlsym(RTLD_DEFAULT, "H5Pset_all_coll_metadata_ops")))
    TRI_FAIL(
        TRI_EDEVICE,
        "%s is an HDF5 without MPI: no checkpoint could be written; look at LD_LIBRARY_PATH (conda, another "
        "module): it must lead to the one that this program was built with",
        library);
  return check_version(library);
}

bool tri_ckpt_h5_by_mpi(hid_t list, tri_comm *world) {
  return H5Pset_fapl_mpio(list, *(MPI_Comm *)world->mpi, MPI_INFO_NULL) >= 0;
}

bool tri_ckpt_h5_collective(hid_t list, bool transfer) {
  return transfer ? H5Pset_dxpl_mpio(list, H5FD_MPIO_COLLECTIVE) >= 0
                  : H5Pset_coll_metadata_write(list, 1) >= 0 && H5Pset_all_coll_metadata_ops(list, 1) >= 0;
}

/* ---- paths ---- */

enum { PLAIN_BYTES = 160 }; /* chosen: Open MPI up to 5.0.9 puts longer ones with more into 255 */

/* ROMIO takes what stands before a colon for the name of a file system, wherever it stands. */
static bool is_plain(const char *path) { return !strchr(path, ':') && strlen(path) < PLAIN_BYTES; }

tri_status tri_ckpt_mpi_path(const char *path, int *folder, char out[TRI_CKPT_PATH_BYTES]) {
  const char *name = strrchr(path, '/');
  char        parent[TRI_CKPT_PATH_BYTES];

  *folder = -1;
  if (is_plain(path) || !name) return tri_ckpt_path(out, "%s", path);
  TRI_TRY(tri_ckpt_path(parent, "%.*s", (int)(name - path) + 1, path));
  *folder = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (*folder < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be opened: %s", parent, strerror(errno));
  return tri_ckpt_path(out, "/proc/self/fd/%d/%s", *folder, name + 1);
}
