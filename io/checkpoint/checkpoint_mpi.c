/* checkpoint_mpi.c - checks that the loaded HDF5 has MPI, and makes paths that MPI-IO takes unchanged. */
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

/* The symbols are weak, so that the program starts with an HDF5 without them and can report it, even if the
 * loader binds all symbols at start. */
#pragma weak H5Pset_fapl_mpio
#pragma weak H5Pset_dxpl_mpio
#pragma weak H5Pset_coll_metadata_write
#pragma weak H5Pset_all_coll_metadata_ops

/* Returns the file of the loaded library, or "HDF5" if it is unknown. */
static const char *library_of(void *function) {
  Dl_info info;

  return function && dladdr(function, &info) && info.dli_fname ? info.dli_fname : "HDF5";
}

/* H5check_version ends the process by SIGABRT if HDF5 is not the version of its headers. Until 1.12 the
 * release number must match too. This check comes first and returns an error instead. */
static tri_status check_version(const char *library) {
  const char *unchecked = getenv("HDF5_DISABLE_VERSION_CHECK");
  unsigned    major, minor, release;
  bool        exact = H5_VERS_MAJOR == 1 && H5_VERS_MINOR <= 12;

  if (unchecked && unchecked[0] >= '1' && unchecked[0] <= '9') return TRI_OK;
  if (H5get_libversion(&major, &minor, &release) < 0) return TRI_OK;
  if (major == H5_VERS_MAJOR && minor == H5_VERS_MINOR && (!exact || release == H5_VERS_RELEASE))
    return TRI_OK;
  TRI_FAIL(TRI_EDEVICE,
           "%s is HDF5 %u.%u.%u, but this program was built with %d.%d.%d, so it could write no "
           "checkpoint. Check LD_LIBRARY_PATH (conda, another module).",
           library, major, minor, release, H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
}

tri_status tri_ckpt_check_library(void) {
  void       *any = dlsym(RTLD_DEFAULT, "H5open"); /* NULL if linked statically, then it is complete */
  const char *library = library_of(any);

  dlerror();
  if (any && (!dlsym(RTLD_DEFAULT, "H5Pset_fapl_mpio") || !dlsym(RTLD_DEFAULT, "H5Pset_dxpl_mpio") ||
              !dlsym(RTLD_DEFAULT, "H5Pset_coll_metadata_write") ||
              !dlsym(RTLD_DEFAULT, "H5Pset_all_coll_metadata_ops")))
    TRI_FAIL(TRI_EDEVICE,
             "%s is an HDF5 without MPI, so this program could write no checkpoint. Check LD_LIBRARY_PATH "
             "(conda, another module). It must lead to the HDF5 of this program's build.",
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

enum { PLAIN_BYTES = 160 }; /* chosen: Open MPI up to 5.0.9 puts a path and more into 255 bytes */

/* ROMIO takes the part before a colon, anywhere in the path, for the name of a file system. */
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
