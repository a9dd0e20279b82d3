/* checkpoint_trial.c - tests whether all ranks can write and read one file in parallel, and how fast. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/host_memory.h"
#include "checkpoint_impl.h"

#include <string.h>
#include <unistd.h>

/* Close the file with H5Fclose, negative on failure, and *folder with close, unless it is -1. */
static hid_t open_file(tri_comm *world, const char *path, bool create, int *folder) {
  char  by[TRI_CKPT_PATH_BYTES];
  hid_t list = H5Pcreate(H5P_FILE_ACCESS), file = -1;

  if (tri_ckpt_agree(world, tri_ckpt_mpi_path(path, folder, by)) == TRI_OK && list >= 0 &&
      tri_ckpt_h5_by_mpi(list, world))
    file = create ? H5Fcreate(by, H5F_ACC_TRUNC, H5P_DEFAULT, list) : H5Fopen(by, H5F_ACC_RDONLY, list);
  if (list >= 0) H5Pclose(list);
  return file;
}

/* Collective. Writes or reads this rank's row of the data set [ranks, bytes]. */
static bool move_row(tri_comm *world, hid_t set, int64_t bytes, unsigned char *row, bool write) {
  hsize_t at[2] = {(hsize_t)world->rank, 0}, size[2] = {1, (hsize_t)bytes};
  hid_t   all = H5Dget_space(set), mine = H5Screate_simple(2, size, NULL), list = H5Pcreate(H5P_DATASET_XFER);
  bool    done = all >= 0 && mine >= 0 && list >= 0 && tri_ckpt_h5_collective(list, true) &&
              H5Sselect_hyperslab(all, H5S_SELECT_SET, at, NULL, size, NULL) >= 0 &&
              (write ? H5Dwrite(set, H5T_NATIVE_UCHAR, mine, all, list, row)
                     : H5Dread(set, H5T_NATIVE_UCHAR, mine, all, list, row)) >= 0;

  if (all >= 0) H5Sclose(all);
  if (mine >= 0) H5Sclose(mine);
  if (list >= 0) H5Pclose(list);
  return done;
}

/* Collective. Writes or reads once, from open to close, and returns the time in *s, in seconds. */
static tri_status pass(tri_comm *world, const char *path, int64_t bytes, unsigned char *row, bool write,
                       double *s) {
  hsize_t size[2] = {(hsize_t)world->size, (hsize_t)bytes};
  double  from_s = tri_now_s();
  int     folder;
  hid_t   file = open_file(world, path, write, &folder), space = -1, list = -1, set = -1;
  bool    done;

  if (file >= 0 && write) {
    space = H5Screate_simple(2, size, NULL);
    list = tri_ckpt_h5_set_list();
    if (space >= 0 && list >= 0)
      set = H5Dcreate2(file, "trial", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  } else if (file >= 0)
    set = H5Dopen2(file, "trial", H5P_DEFAULT);
  done = set >= 0 && move_row(world, set, bytes, row, write) &&
         (!write || H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
  tri_status st = done ? TRI_OK
                       : tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: %s in parallel: %s", path,
                                  write ? "writing" : "reading", tri_ckpt_h5_reason());
  if (set >= 0) H5Dclose(set);
  if (list >= 0) H5Pclose(list);
  if (space >= 0) H5Sclose(space);
  if (file >= 0) H5Fclose(file);
  if (folder >= 0) close(folder);
  *s = tri_now_s() - from_s;
  return tri_ckpt_agree(world, st);
}

tri_status tri_ckpt_trial(tri_comm *world, const char *path, int64_t bytes, double *write_s, double *read_s) {
  unsigned char *row = NULL;
  tri_status     st = TRI_OK;

  tri_ckpt_h5_quiet();
  TRI_TRY(tri_ckpt_agree(world, tri_ckpt_check_library()));
  TRI_TRY_DONE(tri_ckpt_agree(world, tri_host_alloc((size_t)bytes, 1, (void **)&row)));
  for (int64_t i = 0; i < bytes; i++) row[i] = (unsigned char)(i * 31 + world->rank);
  TRI_TRY_DONE(pass(world, path, bytes, row, true, write_s));
  memset(row, 0, (size_t)bytes);
  TRI_TRY_DONE(pass(world, path, bytes, row, false, read_s));
  for (int64_t i = 0; i < bytes && st == TRI_OK; i++)
    if (row[i] != (unsigned char)(i * 31 + world->rank))
      st = tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE,
                    "%s: the bytes read back differ from the bytes written", path);
  st = tri_ckpt_agree(world, st);
done:
  tri_host_free((void **)&row);
  return st;
}
