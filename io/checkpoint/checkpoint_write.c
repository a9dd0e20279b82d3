/* checkpoint_write.c - writes a checkpoint: all ranks fill state.h5 in a .tmp folder, then commit publishes
 * it.
 *
 * All ranks make the file together through HDF5, with its structure and the place of every byte. Each rank
 * then writes its tensors into these places without HDF5 and MPI (checkpoint_stream.c), so that writing can
 * overlap with calls of both. Rank 0 writes the table of hashes in the same way. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "checkpoint_impl.h"

#include "base/file.h"
#include "comm/peers/rank_status.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

struct tri_ckpt_writer {
  tri_comm         *world; /* borrowed */
  char              dir[TRI_CKPT_PATH_BYTES], folder[TRI_CKPT_PATH_BYTES], path[TRI_CKPT_PATH_BYTES];
  tri_ckpt_manifest m;
  hid_t             file, state; /* -1: not open */
  int               folder_fd;   /* open if MPI's path goes through it, else -1 */
  tri_ckpt_space    space;
  hid_t            *set; /* [m.n_entry] data sets */
  tri_ckpt_stream  *stream;
  int64_t           slab_offset_bytes; /* offset of /integrity/slabs in state.h5, after seal() */
  tri_status        mine;              /* first failure of this rank not yet known to the others */
  mode_t            folder_mode;       /* rank 0: mode of the finished folder */
  bool              is_trial;          /* the trial checkpoint, removed by commit */
  bool              ended;             /* all ranks know that only abandon() follows */
};

/* Reports a collective HDF5 call to the heartbeats, because it can hang like any other collective. */
#define HDF5(what, call) (tri_rank_status_enter(TRI_WORLD, what), left(call))
static tri_status left(tri_status st) {
  tri_rank_status_leave(false);
  return st;
}

/* ---- making the file */

/* Makes the file. path is its path for MPI. */
static tri_status make_file(tri_ckpt_writer *w, const char *path) {
  tri_status st = TRI_OK;
  hid_t      access_list = H5Pcreate(H5P_FILE_ACCESS), create_list = H5Pcreate(H5P_FILE_CREATE);

  if (access_list < 0 || create_list < 0 || H5Pset_obj_track_times(create_list, 0) < 0 ||
      !tri_ckpt_h5_by_mpi(access_list, w->world) ||
      H5Pset_libver_bounds(access_list, H5F_LIBVER_V18, H5F_LIBVER_V110) < 0 ||
      H5Pset_alignment(access_list, TRI_CKPT_ALIGN_FROM_BYTES, TRI_CKPT_ALIGN_BYTES) < 0 ||
      H5Pset_meta_block_size(access_list, (hsize_t)w->space.block_bytes) < 0 ||
      !tri_ckpt_h5_collective(access_list, false) || H5Pset_fclose_degree(access_list, H5F_CLOSE_STRONG) < 0)
    TRI_FAIL_DONE(TRI_EINTERNAL, "%s: HDF5 properties: %s", w->path, tri_ckpt_h5_reason());
  /* tri_ckpt_space_prepare made the file. Truncating keeps the same inode. */
  w->file = H5Fcreate(path, H5F_ACC_TRUNC, create_list, access_list);
  if (w->file < 0) TRI_FAIL_DONE(TRI_EFILE, "%s: cannot be made: %s", w->path, tri_ckpt_h5_reason());
done:
  if (access_list >= 0) H5Pclose(access_list);
  if (create_list >= 0) H5Pclose(create_list);
  return st;
}

/* Reserves blocks up to `end` and for metadata that HDF5 may place behind it. Flushing cuts off the unused
 * part. */
static tri_status take_space(const tri_ckpt_writer *w, int64_t end) {
  for (int i = 0; i < w->m.n_entry; i++)
    if (w->m.entry[i].offset_bytes + w->m.entry[i].bytes > end)
      end = w->m.entry[i].offset_bytes + w->m.entry[i].bytes;
  if (w->world->rank == 0) TRI_TRY(tri_ckpt_space_take(w->path, end + 2 * w->space.block_bytes));
  return TRI_OK;
}

static tri_status make_set(const tri_ckpt_writer *w, hid_t group, hid_t list, tri_ckpt_entry *e, hid_t *set) {
  hid_t   type = tri_ckpt_h5_type(e->t.dtype), space = tri_ckpt_h5_space(&e->t);
  haddr_t offset = HADDR_UNDEF;

  if (type >= 0 && space >= 0)
    *set = H5Dcreate2(group, e->t.name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  if (*set >= 0) offset = H5Dget_offset(*set);
  if (type >= 0) H5Tclose(type);
  if (space >= 0) H5Sclose(space);
  if (*set < 0 || offset == HADDR_UNDEF)
    TRI_FAIL(TRI_EFILE, "%s: %s/%s: %s", w->path, e->t.group, e->t.name, tri_ckpt_h5_reason());
  e->offset_bytes = (int64_t)offset;
  return TRI_OK;
}

static tri_status make_sets(tri_ckpt_writer *w) {
  tri_status  st = TRI_OK;
  hid_t       list = tri_ckpt_h5_set_list(), group = -1;
  const char *group_name = "";

  if (list < 0) TRI_FAIL(TRI_EINTERNAL, "%s: HDF5 properties: %s", w->path, tri_ckpt_h5_reason());
  TRI_TRY_DONE(tri_ckpt_h5_group(w->file, w->path, "/state", &w->state));
  for (int i = 0; i < w->m.n_entry; i++) {
    tri_ckpt_entry *e = &w->m.entry[i];
    if (strcmp(group_name, e->t.group) != 0) {
      if (group >= 0) H5Gclose(group);
      group_name = e->t.group;
      TRI_TRY_DONE(tri_ckpt_h5_group(w->file, w->path, group_name, &group));
    }
    TRI_TRY_DONE(make_set(w, group, list, e, &w->set[i]));
  }
done:
  if (group >= 0) H5Gclose(group);
  H5Pclose(list);
  return st;
}

static tri_status put_root(const tri_ckpt_writer *w) {
  int64_t version = TRI_CKPT_VERSION;

  TRI_TRY(tri_ckpt_h5_put_text(w->file, w->path, "format", "trireme-checkpoint"));
  TRI_TRY(tri_ckpt_h5_put(w->file, w->path, "format_version", H5T_STD_I64LE, &version));
  TRI_TRY(tri_ckpt_h5_put_text(w->file, w->path, "program", "trireme " TRI_VERSION));
  TRI_TRY(tri_ckpt_h5_put(w->file, w->path, "step", H5T_STD_I64LE, &w->m.step));
  return TRI_OK;
}

/* Does this rank's part of the work without the others. */
static tri_status set_up(tri_ckpt_writer *w, const char *dir, int64_t step, const tri_ckpt_tensor *tensor,
                         int n_tensor, int64_t side_bytes) {
  w->m.step = step;
  TRI_TRY(tri_ckpt_path(w->dir, "%s", dir));
  TRI_TRY(tri_ckpt_step_path(w->folder, dir, step, TRI_CKPT_TMP));
  TRI_TRY(tri_ckpt_path(w->path, "%s/state.h5", w->folder));
  for (int i = 0; i < n_tensor; i++) TRI_TRY(tri_ckpt_manifest_add(&w->m, w->folder, TRI_EINPUT, &tensor[i]));
  w->space = tri_ckpt_space_reckon(&w->m, w->world->size, side_bytes);
  TRI_TRY(TRI_ALLOC(w->set, n_tensor));
  for (int i = 0; i < n_tensor; i++) w->set[i] = -1;
  return TRI_OK;
}

/* Collective over world. reserve_bytes are checked for in addition and freed again. */
static tri_status create(const char *dir, int64_t step, tri_comm *world, const tri_ckpt_tensor *tensor,
                         int n_tensor, int64_t side_bytes, int64_t reserve_bytes, tri_ckpt_writer **out) {
  char             path[TRI_CKPT_PATH_BYTES];
  tri_status       st = TRI_OK;
  tri_ckpt_writer *w;

  TRI_ASSERT(dir && dir[0] && step >= 0 && world && n_tensor > 0);
  *out = NULL;
  TRI_TRY(tri_ckpt_agree(world, TRI_ALLOC(w, 1)));
  w->world = world;
  w->ended = true; /* until it is open all ranks fail together */
  w->file = w->state = -1;
  w->folder_fd = -1;
  w->is_trial = step == TRI_CKPT_TRIAL_STEP;
  tri_ckpt_h5_quiet();
  TRI_TRY_DONE(tri_ckpt_agree(world, set_up(w, dir, step, tensor, n_tensor, side_bytes)));
  w->space.tensor_bytes += reserve_bytes;
  if (world->rank == 0) st = tri_ckpt_space_prepare(w->dir, w->folder, &w->space, &w->folder_mode);
  TRI_TRY_DONE(tri_ckpt_agree(world, st));
  TRI_TRY_DONE(tri_ckpt_agree(
      world, tri_ckpt_space_check(w->folder, world->rank, w->space.tensor_bytes + w->space.rest_bytes)));
  /* A rank may be out of file descriptors. It must not leave the others alone in H5Fcreate. */
  TRI_TRY_DONE(tri_ckpt_agree(world, tri_ckpt_mpi_path(w->path, &w->folder_fd, path)));
  st = tri_ckpt_agree(world, HDF5("state.h5 made", make_file(w, path)));
  if (st != TRI_OK) w->file = -1; /* stays open, because closing waits for all ranks */
  TRI_TRY_DONE(st);
  TRI_TRY_DONE(tri_ckpt_agree(world, HDF5("data sets made", make_sets(w))));
  TRI_TRY_DONE(tri_ckpt_agree(world, HDF5("state.h5 described", put_root(w))));
  TRI_TRY_DONE(tri_ckpt_agree(world, take_space(w, 0)));
  TRI_TRY_DONE(
      tri_ckpt_agree(world, tri_ckpt_stream_open(w->path, &w->m, w->folder, world->rank, &w->stream)));
done:
  if (st != TRI_OK)
    tri_ckpt_abandon(&w);
  else
    w->ended = false;
  *out = w;
  return st;
}

tri_status tri_ckpt_create(const char *dir, int64_t step, tri_comm *world, const tri_ckpt_tensor *tensor,
                           int n_tensor, int64_t side_bytes, tri_ckpt_writer **out) {
  return create(dir, step, world, tensor, n_tensor, side_bytes, 0, out);
}

tri_status tri_ckpt_create_trial(const char *dir, int64_t reserve_bytes, tri_comm *world,
                                 const tri_ckpt_tensor *tensor, tri_ckpt_writer **out) {
  return create(dir, TRI_CKPT_TRIAL_STEP, world, tensor, 1, 0, reserve_bytes, out);
}

/* ---- filling it */

void tri_ckpt_lend(tri_ckpt_writer *w, void *space, size_t bytes) {
  tri_ckpt_stream_lend(w->stream, space, bytes);
}

/* Keeps a failure. The next collective call reports it to the other ranks. */
static tri_status keep(tri_ckpt_writer *w, tri_status st) {
  if (w->mine == TRI_OK) w->mine = st;
  return st;
}

tri_status tri_ckpt_take(tri_ckpt_writer *w, int tensor, int64_t begin, int64_t count, void **host) {
  TRI_ASSERT(tensor >= 0 && tensor < w->m.n_entry && begin >= 0 && count > 0);
  TRI_ASSERT(begin <= w->m.entry[tensor].count - count);
  return keep(w, tri_ckpt_stream_take(w->stream, tensor, begin, count, host));
}

tri_status tri_ckpt_give(tri_ckpt_writer *w) { return keep(w, tri_ckpt_stream_give(w->stream)); }

tri_status tri_ckpt_write(tri_ckpt_writer *w, int tensor, int64_t begin, int64_t count, const void *host) {
  int64_t size, most;
  void   *at;

  TRI_ASSERT(tensor >= 0 && tensor < w->m.n_entry && (host || count == 0));
  TRI_ASSERT(begin >= 0 && count >= 0 && begin <= w->m.entry[tensor].count - count);
  size = (int64_t)tri_dtype_bytes(w->m.entry[tensor].t.dtype);
  most = TRI_CKPT_PIECE_BYTES / size;
  for (int64_t done = 0; done < count; done += most) {
    int64_t n = count - done < most ? count - done : most;
    TRI_TRY(tri_ckpt_take(w, tensor, begin + done, n, &at));
    memcpy(at, (const char *)host + done * size, (size_t)(n * size));
    TRI_TRY(tri_ckpt_give(w));
  }
  return TRI_OK;
}

/* Begins every collective call. If any rank has failed or has gone to abandon(), the call fails on all
 * ranks. */
static tri_status enter(tri_ckpt_writer *w) {
  tri_status st = tri_ckpt_agree(w->world, w->mine);

  if (st != TRI_OK) w->ended = true;
  return st;
}

/* Ends every collective call. */
static tri_status leave(tri_ckpt_writer *w, tri_status mine) {
  w->mine = tri_ckpt_agree(w->world, mine);
  return w->mine;
}

tri_status tri_ckpt_put_i64(tri_ckpt_writer *w, const char *name, int64_t value) {
  TRI_TRY(enter(w));
  TRI_TRY(leave(w, HDF5(name, tri_ckpt_h5_put(w->state, w->path, name, H5T_STD_I64LE, &value))));
  return TRI_OK;
}

tri_status tri_ckpt_put_f64(tri_ckpt_writer *w, const char *name, double value) {
  TRI_TRY(enter(w));
  TRI_TRY(leave(w, HDF5(name, tri_ckpt_h5_put(w->state, w->path, name, H5T_IEEE_F64LE, &value))));
  return TRI_OK;
}

tri_status tri_ckpt_put_text(tri_ckpt_writer *w, const char *name, const char *text) {
  TRI_TRY(enter(w));
  TRI_TRY(leave(w, HDF5(name, tri_ckpt_h5_put_text(w->state, w->path, name, text))));
  return TRI_OK;
}

tri_status tri_ckpt_put_record(tri_ckpt_writer *w, const char *record) {
  w->m.record.len = 0;
  return tri_text_put(&w->m.record, record, strlen(record));
}

static tri_status write_side_file(tri_ckpt_writer *w, const char *name, const void *bytes, size_t n) {
  char path[TRI_CKPT_PATH_BYTES];

  TRI_TRY(tri_ckpt_path(path, "%s/%s", w->folder, name));
  if (n > TRI_CKPT_FILE_BYTES)
    TRI_FAIL(TRI_EINPUT, "%s: has %zu bytes, but a side file of a checkpoint may have only %d", path, n,
             TRI_CKPT_FILE_BYTES);
  TRI_TRY(tri_file_write(path, bytes, n));
  TRI_TRY(tri_ckpt_manifest_add_file(&w->m, name, (int64_t)n, tri_hash64(bytes, n, 0)));
  return TRI_OK;
}

tri_status tri_ckpt_put_file(tri_ckpt_writer *w, const char *name, const void *bytes, size_t n) {
  TRI_ASSERT(name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) < TRI_CKPT_FILE_NAME_BYTES);
  TRI_ASSERT(strcmp(name, "MANIFEST.json") != 0 && strcmp(name, "state.h5") != 0);
  TRI_TRY(enter(w));
  TRI_TRY(leave(w, w->world->rank == 0 ? write_side_file(w, name, bytes, n) : TRI_OK));
  return TRI_OK;
}

/* ---- publishing */

/* Closes every handle, the file itself last. */
static tri_status close_file(tri_ckpt_writer *w) {
  bool good = true;

  for (int i = 0; w->set && i < w->m.n_entry; i++)
    if (w->set[i] >= 0) good &= H5Dclose(w->set[i]) >= 0;
  TRI_FREE(w->set);
  if (w->state >= 0) good &= H5Gclose(w->state) >= 0;
  if (w->file >= 0) good &= H5Fclose(w->file) >= 0;
  w->file = w->state = -1;
  if (!good) TRI_FAIL(TRI_EFILE, "%s: closing failed: %s", w->path, tri_ckpt_h5_reason());
  return TRI_OK;
}

static tri_status flush_file(tri_ckpt_writer *w) {
  if (H5Fflush(w->file, H5F_SCOPE_GLOBAL) < 0)
    TRI_FAIL(TRI_EFILE, "%s: writing failed: %s", w->path, tri_ckpt_h5_reason());
  return TRI_OK;
}

/* Restores the mode that the folder had when it was made. */
static tri_status open_to_others(const tri_ckpt_writer *w) {
  struct stat sb;
  int         why, fd = open(w->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

  if (fd < 0) TRI_FAIL(TRI_EFILE, "%s: cannot be opened: %s", w->folder, strerror(errno));
  why = fstat(fd, &sb) ? errno : 0;
  if (!why && (sb.st_mode & 07777) != w->folder_mode && fchmod(fd, w->folder_mode)) why = errno;
  close(fd);
  if (why) TRI_FAIL(TRI_EFILE, "%s: its mode cannot be set (%s)", w->folder, strerror(why));
  return TRI_OK;
}

/* Does rank 0's last work: the manifest and the folder's name. */
static tri_status finish(tri_ckpt_writer *w) {
  struct stat sb;

  if (stat(w->path, &sb)) TRI_FAIL(TRI_EFILE, "%s: %s", w->path, strerror(errno));
  w->m.state_bytes = sb.st_size;
  TRI_TRY(tri_ckpt_metadata_hash(&w->m, w->folder, &w->m.metadata_hash));
  TRI_TRY(tri_ckpt_manifest_write(&w->m, w->folder));
  TRI_TRY(open_to_others(w));
  TRI_TRY(tri_ckpt_sync(w->folder));
  TRI_TRY(tri_ckpt_check_guard());
  if (w->is_trial) return tri_ckpt_rehearse_publish(w->dir);
  TRI_TRY(tri_ckpt_discard_abandoned(w->dir, w->m.step));
  TRI_TRY(tri_ckpt_publish(w->dir, w->m.step));
  return TRI_OK;
}

/* Collective. Ends HDF5's part. From here on only bytes at known offsets are written. */
static tri_status seal(tri_ckpt_writer *w) {
  tri_comm *world = w->world;
  double    n = (double)tri_ckpt_stream_count(w->stream);

  TRI_TRY(tri_host_sum(world, &n, 1));
  TRI_TRY(tri_ckpt_agree(world, world->rank == 0 ? tri_ckpt_space_give(w->folder) : TRI_OK));
  TRI_TRY(tri_ckpt_agree(
      world, HDF5("hashes", tri_ckpt_slabs_place(w->file, w->path, (int64_t)n, &w->slab_offset_bytes))));
  TRI_TRY(tri_ckpt_agree(world,
                         take_space(w, w->slab_offset_bytes + (int64_t)n * (int64_t)sizeof(tri_ckpt_slab))));
  TRI_TRY(tri_ckpt_agree(world, HDF5("state.h5 flushed", flush_file(w))));
  return tri_ckpt_agree(world, HDF5("state.h5 closed", close_file(w)));
}

tri_status tri_ckpt_begin(tri_ckpt_writer *w) {
  TRI_TRY(enter(w));
  w->ended = true; /* all ranks fail together, until commit */
  TRI_TRY(seal(w));
  return tri_ckpt_agree(w->world, tri_ckpt_stream_start(w->stream));
}

bool tri_ckpt_is_written(const tri_ckpt_writer *w) { return tri_ckpt_stream_is_done(w->stream); }

double tri_ckpt_wait_s(tri_ckpt_writer *w) {
  (void)keep(w, tri_ckpt_stream_wait(w->stream));
  return tri_ckpt_stream_lasted_s(w->stream);
}

static tri_status put_integrity(tri_ckpt_writer *w) {
  tri_status     st = TRI_OK;
  tri_ckpt_slab *slab = NULL;
  int64_t        n = 0;

  TRI_TRY_DONE(
      tri_ckpt_agree(w->world, tri_ckpt_slabs_gather(w->stream, w->world, &w->m, w->folder, &slab, &n)));
  TRI_TRY_DONE(tri_ckpt_agree(
      w->world, w->world->rank == 0 ? tri_ckpt_slabs_write(w->path, w->slab_offset_bytes, slab, n) : TRI_OK));
done:
  TRI_FREE(slab);
  return st;
}

static tri_status commit(tri_ckpt_writer *w) {
  tri_comm *world = w->world;

  (void)keep(w, tri_ckpt_stream_wait(w->stream));
  TRI_TRY(enter(w));
  w->ended = true; /* from here on all ranks fail together */
  if (w->file >= 0) TRI_TRY(seal(w));
  TRI_TRY(put_integrity(w));
  /* The threads of the ranks made the tensors durable. Here every node does so for the rest. */
  TRI_TRY(tri_ckpt_agree(world, tri_ckpt_sync(w->path)));
  TRI_TRY(tri_ckpt_agree(world, world->rank == 0 ? finish(w) : TRI_OK));
  return TRI_OK;
}

static void release(tri_ckpt_writer **w) {
  tri_ckpt_stream_close(&(*w)->stream);
  if ((*w)->folder_fd >= 0) close((*w)->folder_fd);
  tri_ckpt_manifest_free(&(*w)->m);
  TRI_FREE((*w)->set);
  TRI_FREE(*w);
}

void tri_ckpt_drop(tri_ckpt_writer **w) {
  if (*w) release(w);
}

tri_status tri_ckpt_commit(tri_ckpt_writer **w) {
  tri_status st = commit(*w);

  if (st != TRI_OK) {
    tri_ckpt_abandon(w);
    TRI_FAIL(st, "the checkpoint was not saved");
  }
  release(w);
  return TRI_OK;
}

/* Closes the file. HDF5 ends the whole process at exit if it was asked to close a file it cannot write. So
 * the disk space is freed first, and a file that still cannot be flushed stays open. */
static tri_status discard_file(tri_ckpt_writer *w) {
  tri_status st = TRI_OK;

  if (w->file >= 0) {
    if (w->world->rank == 0) st = tri_ckpt_space_give(w->folder);
    if (w->world->rank == 0 && truncate(w->path, 0))
      st = tri_fail(__FILE__, __LINE__, __func__, TRI_EFILE, "%s: %s", w->path, strerror(errno));
    TRI_TRY(tri_ckpt_agree(w->world, st));
    TRI_TRY(tri_ckpt_agree(w->world, HDF5("state.h5 flushed", flush_file(w))));
  }
  TRI_TRY(HDF5("state.h5 closed", close_file(w)));
  return TRI_OK;
}

/* Tells the ranks that are still at work. They learn it in enter(). */
static void tell_others(tri_ckpt_writer *w) {
  bool told = tri_error_message()[0] != 0;

  if (!told) tri_error_set(TRI_EFILE, "the save was abandoned");
  if (w->mine == TRI_OK) w->mine = TRI_EFILE;
  if (enter(w) != TRI_OK && !told) tri_error_clear();
}

void tri_ckpt_abandon(tri_ckpt_writer **w) {
  bool closed, removed;

  if (!*w) return;
  if (!(*w)->ended) tell_others(*w);
  tri_ckpt_stream_close(&(*w)->stream);
  closed = tri_host_barrier((*w)->world) == TRI_OK; /* nobody writes any more */
  closed = discard_file(*w) == TRI_OK && closed;
  removed = (*w)->world->rank != 0 || tri_ckpt_remove((*w)->folder) == TRI_OK;
  closed = tri_host_barrier((*w)->world) == TRI_OK && closed; /* nobody goes on while the folder exists */
  if (!closed && (*w)->world->rank == 0)
    tri_log(TRI_LOG_WARN, "%s: HDF5 cannot close this file, so it stays open until the program ends",
            (*w)->path);
  if (!removed) tri_log(TRI_LOG_WARN, "%s: could not be removed: %s", (*w)->folder, tri_error_message());
  release(w);
}
