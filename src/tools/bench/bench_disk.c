/* bench_disk.c - times a checkpoint of the trained weights and a plain file of the same size in the same
 * folder. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_disk.h"

#include "base/file.h"
#include "base/host_memory.h"
#include "tools/doctor/exam/exam_folder.h"
#include "tools/timer/timed.h"
#include "bench_trial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int64_t most_bytes = (int64_t)4 << 30; /* chosen, seconds even on slow disks */

enum { KINDS = TRI_STATE_AVERAGE, PIECE = TRI_CKPT_PIECE_BYTES / 4 };
static const char *const group[KINDS] = {[TRI_STATE_WEIGHT] = "/model",
                                         [TRI_STATE_EXP_AVG] = "/optimizer/exp_avg",
                                         [TRI_STATE_EXP_AVG_SQ] = "/optimizer/exp_avg_sq"};

/* Place of a tensor of the checkpoint. */
typedef struct entry {
  tri_state_kind kind;
  int            unit, param;
} entry;

typedef struct disk {
  tri_session     *se;      /* borrowed, as trained */
  tri_params      *trained; /* f32 masters and moments */
  entry           *e;       /* [n] */
  tri_ckpt_tensor *tensor;  /* [n] */
  int              n;
  char             path[TRI_CKPT_PATH_BYTES]; /* the trial folder */
  char            *piece;                     /* [TRI_CKPT_PIECE_BYTES], for the plain file */
} disk;

/* Lists a unit's tensors, with masters and both moments of each. */
static void list_unit(disk *d, int u, tri_disk_times *out) {
  const tri_unit_spec *unit = &tri_params_options(d->trained)->unit[u];

  for (int i = 0; i < unit->n_param; i++)
    for (int kind = 0; kind < KINDS; kind++) {
      const tri_param_spec *s = &unit->param[i];
      d->e[d->n] = (entry){(tri_state_kind)kind, u, i};
      d->tensor[d->n++] =
          (tri_ckpt_tensor){group[kind], s->name, TRI_F32, s->ndim, {s->dim[0], s->dim[1], s->dim[2]}};
      out->bytes += 4 * tri_param_count(s);
    }
}

static int64_t unit_bytes(const tri_unit_spec *u) {
  int64_t bytes = 0;

  for (int i = 0; i < u->n_param; i++) bytes += 4 * KINDS * tri_param_count(&u->param[i]);
  return bytes;
}

/* Lists whole units up to most_bytes, and the first one in any case. */
static tri_status list(disk *d, tri_disk_times *out) {
  const tri_params_opt *o = tri_params_options(d->trained);
  int64_t               n = 0;

  for (int u = 0; u < o->n_unit; u++) n += KINDS * o->unit[u].n_param;
  TRI_TRY(TRI_ALLOC(d->e, n + 1));
  TRI_TRY(TRI_ALLOC(d->tensor, n + 1));
  TRI_TRY(TRI_ALLOC(d->piece, TRI_CKPT_PIECE_BYTES));
  memset(d->piece, 0x3c, TRI_CKPT_PIECE_BYTES);
  for (int u = 0; u < o->n_unit; u++) {
    int64_t bytes = unit_bytes(&o->unit[u]);
    out->all_bytes += bytes;
    if (!out->bytes || out->bytes + bytes <= most_bytes) list_unit(d, u, out);
  }
  return TRI_OK;
}

static tri_status write_tensor(disk *d, tri_ckpt_writer *w, int i) {
  const entry *e = &d->e[i];
  tri_range    mine = tri_params_piece(d->trained, e->unit, e->param);

  for (int64_t done = 0; done < mine.count; done += PIECE) {
    int64_t at = mine.begin + done, n = mine.count - done < PIECE ? mine.count - done : PIECE;
    void   *host;
    TRI_TRY(tri_ckpt_take(w, i, at, n, &host));
    TRI_TRY(tri_params_read(d->trained, e->kind, e->unit, e->param, at, n, host, d->se->stream));
    TRI_TRY(tri_ckpt_give(w));
  }
  return TRI_OK;
}

/* Writes a checkpoint as tri_state_save does. */
static tri_status write_checkpoint(disk *d) {
  tri_ckpt_writer *w = NULL;
  tri_status       st = TRI_OK;

  TRI_TRY(tri_ckpt_create(d->path, 1, d->se->comm[TRI_WORLD], d->tensor, d->n, 0, &w));
  for (int i = 0; i < d->n && st == TRI_OK; i++) st = write_tensor(d, w, i);
  if (st == TRI_OK) return tri_ckpt_commit(&w);
  tri_ckpt_abandon(&w);
  return st;
}

/* Writes this rank's share of the bytes at its place in the common file. */
static tri_status write_share(const disk *d, int fd, int64_t bytes) {
  const tri_comm *world = d->se->comm[TRI_WORLD];
  int64_t         from = bytes / world->size * world->rank,
          to = world->rank == world->size - 1 ? bytes : from + bytes / world->size;
  int why = 0;

  for (; from < to && !why; from += TRI_CKPT_PIECE_BYTES)
    why =
        tri_file_put(fd, d->piece, to - from < TRI_CKPT_PIECE_BYTES ? to - from : TRI_CKPT_PIECE_BYTES, from);
  if (!why && fsync(fd)) why = errno;
  if (why) TRI_FAIL(TRI_EFILE, "%s/plain: cannot write: %s", d->path, strerror(why));
  return TRI_OK;
}

static tri_status write_plain(const disk *d, int64_t bytes) {
  char       path[TRI_CKPT_PATH_BYTES + 8];
  int        fd;
  tri_status st;

  snprintf(path, sizeof path, "%s/plain", d->path);
  fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) TRI_FAIL(TRI_EFILE, "%s: cannot create the file: %s", path, strerror(errno));
  st = write_share(d, fd, bytes);
  if (close(fd) && st == TRI_OK) TRI_FAIL(TRI_EFILE, "%s: cannot be written: %s", path, strerror(errno));
  return st;
}

/* Times one checkpoint or one plain file, from the common start to the end of the slowest rank. */
static tri_status once(disk *d, int64_t plain_bytes, tri_series *s) {
  tri_comm *world = d->se->comm[TRI_WORLD];

  TRI_TRY(tri_host_barrier(world));
  tri_series_begin(s);
  TRI_TRY(plain_bytes ? tri_agree(world, write_plain(d, plain_bytes)) : write_checkpoint(d));
  tri_series_end(s);
  return tri_agree(world, world->rank == 0 ? tri_trial_clear() : TRI_OK);
}

/* Alternates both, so that they meet the same state of the disk. */
static tri_status time_both(disk *d, const tri_effort *e, tri_disk_times *out) {
  tri_series checkpoint = {.effort = *e}, plain = {.effort = *e};
  bool       enough = false;

  while (!enough) {
    TRI_TRY(once(d, 0, &checkpoint));
    TRI_TRY(once(d, out->bytes, &plain));
    TRI_TRY(tri_series_ask(d->se->comm[TRI_WORLD], &plain, &enough));
  }
  out->write_s = tri_series_median(&checkpoint);
  out->plain_s = tri_series_median(&plain);
  out->n = plain.n;
  TRI_TRY(tri_slowest(d->se->comm[TRI_WORLD], &out->write_s, 1));
  return tri_slowest(d->se->comm[TRI_WORLD], &out->plain_s, 1);
}

static tri_status try_in(disk *d, const char *folder, const tri_effort *e, tri_disk_times *out) {
  tri_comm *world = d->se->comm[TRI_WORLD];

  TRI_TRY(tri_trial_begin(world, folder, d->path));
  return tri_trial_end(world, time_both(d, e, out));
}

tri_status tri_disk_time(tri_session *se, tri_params *trained, const char *folder, const tri_effort *e,
                         tri_disk_times *out) {
  tri_comm  *world = se->comm[TRI_WORLD];
  disk       d = {.se = se, .trained = trained};
  char       there[TRI_CKPT_PATH_BYTES] = "";
  size_t     n;
  tri_status st = TRI_OK;

  *out = (tri_disk_times){0};
  if (world->rank == 0) tri_folder_there(folder, there, sizeof there);
  TRI_TRY_DONE(tri_host_bcast(world, there, sizeof there, 0));
  n = strnlen(there, sizeof there - 1);
  snprintf(out->folder, sizeof out->folder, "%s",
           there + (n < sizeof out->folder ? 0 : n - sizeof out->folder + 1));
  TRI_TRY_DONE(tri_agree(world, list(&d, out)));
  st = try_in(&d, there, e, out);
  if (st == TRI_EFILE) { /* on every rank */
    snprintf(out->why, sizeof out->why, "%s", tri_error_message());
    tri_error_clear();
    st = TRI_OK;
  }
done:
  TRI_FREE(d.piece);
  TRI_FREE(d.tensor);
  TRI_FREE(d.e);
  return st;
}
