/* checkpoint_verify.c - writes the hashes of /integrity/slabs, and compares them with the tensors' bytes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "checkpoint_impl.h"

#include "base/file.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing */

static int by_place(const void *a, const void *b) {
  const tri_ckpt_slab *x = a, *y = b;

  if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
  return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Checks that every element of every tensor is in exactly one of the sorted slabs of all ranks. */
static tri_status check_cover(const tri_ckpt_manifest *m, const char *folder, const tri_ckpt_slab *slab,
                              int64_t n) {
  int64_t k = 0;

  for (int i = 0; i < m->n_entry; i++) {
    const tri_ckpt_entry *e = &m->entry[i];
    int64_t               at = 0;
    for (; k < n && slab[k].tensor == i && slab[k].begin == at; k++) at += slab[k].count;
    if (at != e->count || (k < n && slab[k].tensor == i))
      TRI_FAIL(TRI_EINTERNAL, "%s: %s/%s: the ranks did not write element %" PRId64 " exactly once", folder,
               e->t.group, e->t.name, at);
  }
  return TRI_OK;
}

tri_status tri_ckpt_slabs_gather(const tri_ckpt_stream *stream, tri_comm *world, const tri_ckpt_manifest *m,
                                 const char *folder, tri_ckpt_slab **out, int64_t *n) {
  tri_status     st = TRI_OK;
  int64_t        mine = tri_ckpt_stream_count(stream);
  tri_ckpt_slab *slab = NULL;
  size_t        *counts = NULL, bytes = 0;

  *out = NULL;
  st = TRI_ALLOC(counts, world->size);
  if (st == TRI_OK) st = TRI_ALLOC(slab, mine);
  TRI_TRY_DONE(tri_ckpt_agree(world, st));
  tri_ckpt_stream_slabs(stream, slab);
  TRI_TRY_DONE(tri_host_gather_all(world, slab, (size_t)mine * sizeof *slab, (void **)out, counts));
  for (int r = 0; r < world->size; r++) bytes += counts[r];
  *n = (int64_t)(bytes / sizeof **out);
  qsort(*out, (size_t)*n, sizeof **out, by_place);
  TRI_TRY_DONE(check_cover(m, folder, *out, *n));
done:
  TRI_FREE(slab);
  TRI_FREE(counts);
  return st;
}

tri_status tri_ckpt_slabs_place(hid_t file, const char *path, int64_t n, int64_t *offset_bytes) {
  tri_status st = TRI_OK;
  hid_t      group = -1, set = -1, list = tri_ckpt_h5_set_list(), type = tri_ckpt_h5_slab_type();
  hsize_t    rows = (hsize_t)n;
  hid_t      space = H5Screate_simple(1, &rows, NULL);
  haddr_t    offset = HADDR_UNDEF;

  TRI_TRY_DONE(tri_ckpt_h5_group(file, path, "/integrity", &group));
  if (list >= 0 && type >= 0 && space >= 0)
    set = H5Dcreate2(group, "slabs", type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  if (set >= 0) offset = H5Dget_offset(set);
  if (offset == HADDR_UNDEF) TRI_FAIL_DONE(TRI_EFILE, "%s: /integrity/slabs: %s", path, tri_ckpt_h5_reason());
  *offset_bytes = (int64_t)offset;
  TRI_TRY_DONE(tri_ckpt_h5_put_text(
      set, path, "method",
      "XXH64, seed 0, of elements [begin, begin + count) of the flattened tensor; tensor: its place in "
      "\"tensors\" of MANIFEST.json"));
done:
  if (set >= 0) H5Dclose(set);
  if (group >= 0) H5Gclose(group);
  if (list >= 0) H5Pclose(list);
  if (type >= 0) H5Tclose(type);
  if (space >= 0) H5Sclose(space);
  return st;
}

tri_status tri_ckpt_slabs_write(const char *path, int64_t offset_bytes, const tri_ckpt_slab *slab,
                                int64_t n) {
  int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC), why = fd < 0 ? errno : 0;

  if (!why) why = tri_file_put(fd, slab, n * (int64_t)sizeof *slab, offset_bytes);
  if (fd >= 0) close(fd);
  if (why) TRI_FAIL(TRI_EFILE, "%s: writing /integrity/slabs failed: %s", path, strerror(why));
  return TRI_OK;
}

/* ---- comparing */

/* Opens /integrity/slabs and returns its number of rows. Close *set with H5Dclose. It is -1 on failure. */
static tri_status open_slabs(const tri_ckpt_reader *r, hid_t *set, int64_t *n) {
  hid_t space = -1;

  *set = -1;
  TRI_TRY(tri_ckpt_h5_check_links(r->file, r->path, "/integrity/slabs"));
  *set = H5Dopen2(r->file, "/integrity/slabs", H5P_DEFAULT);
  if (*set >= 0 && tri_ckpt_h5_is_plain(*set)) space = H5Dget_space(*set);
  *n = space >= 0 && H5Sget_simple_extent_ndims(space) == 1 ? H5Sget_simple_extent_npoints(space) : -1;
  if (space >= 0) H5Sclose(space);
  if (*n >= 0) return TRI_OK;
  if (*set >= 0) H5Dclose(*set);
  *set = -1;
  TRI_FAIL(TRI_EFORMAT, "%s: /integrity/slabs is not a list of hashes inside this file", r->path);
}

static tri_status read_slabs(const tri_ckpt_reader *r, hid_t set, int64_t first, int64_t count,
                             tri_ckpt_slab *out) {
  hsize_t start = (hsize_t)first, n = (hsize_t)count;
  hid_t   space = H5Dget_space(set), memory = H5Screate_simple(1, &n, NULL), type = tri_ckpt_h5_slab_type();
  bool    good = space >= 0 && memory >= 0 && type >= 0 &&
              H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &n, NULL) >= 0 &&
              H5Dread(set, type, memory, space, H5P_DEFAULT, out) >= 0;

  if (space >= 0) H5Sclose(space);
  if (memory >= 0) H5Sclose(memory);
  if (type >= 0) H5Tclose(type);
  if (!good) TRI_FAIL(TRI_EFORMAT, "%s: /integrity/slabs: %s", r->path, tri_ckpt_h5_reason());
  return TRI_OK;
}

/* The state of a walk through the rows, which cover the tensors in order without gap or overlap. */
typedef struct walk {
  const tri_ckpt_reader *r;
  int                    fd, rank, size;
  int                    tensor;      /* place of the next row: this tensor, element `at` */
  int64_t                at, bytes;   /* bytes of the rows so far */
  int64_t                total_bytes; /* bytes of all tensors */
  tri_ckpt_slab         *slab;        /* [SLAB_ROWS] */
  char                  *buf;         /* [TRI_CKPT_SLAB_BYTES], or the bytes of the largest tensor */
  int64_t               *bad;         /* [n_entry] 1 if a hash differs; the caller's */
} walk;

enum { SLAB_ROWS = 1 << 15 }; /* chosen: 1 MiB at a time */

static tri_status check_slab(const walk *w, const tri_ckpt_slab *s) {
  const tri_ckpt_entry *e = &w->r->m.entry[w->tensor];

  if (w->tensor == w->r->m.n_entry)
    TRI_FAIL(TRI_EFORMAT, "%s: /integrity/slabs has rows beyond the last tensor", w->r->path);
  if (s->tensor != w->tensor || s->begin != w->at || s->count < 1 || s->count > e->count - w->at)
    TRI_FAIL(TRI_EFORMAT, "%s: /integrity/slabs does not cover %s/%s", w->r->path, e->t.group, e->t.name);
  if (s->count > TRI_CKPT_SLAB_BYTES / (int64_t)tri_dtype_bytes(e->t.dtype))
    TRI_FAIL(TRI_EFORMAT,
             "%s: /integrity/slabs: a row of %s/%s has %" PRId64 " elements, more than the limit of %d bytes",
             w->r->path, e->t.group, e->t.name, s->count, TRI_CKPT_SLAB_BYTES);
  return TRI_OK;
}

/* Hashes the slab, read directly from the file, if it belongs to this rank's share. */
static tri_status take_slab(walk *w, const tri_ckpt_slab *s) {
  const tri_ckpt_entry *e;
  int64_t               size_bytes, bytes;

  TRI_TRY(check_slab(w, s));
  e = &w->r->m.entry[w->tensor];
  size_bytes = (int64_t)tri_dtype_bytes(e->t.dtype);
  bytes = s->count * size_bytes;
  if ((int)((double)w->bytes / (double)(w->total_bytes + 1) * w->size) == w->rank) {
    TRI_TRY(
        tri_ckpt_read_at(w->fd, w->r->path, w->buf, (size_t)bytes, e->offset_bytes + s->begin * size_bytes));
    if (tri_hash64(w->buf, (size_t)bytes, 0) != s->hash) w->bad[w->tensor] = 1;
  }
  w->bytes += bytes;
  w->at += s->count;
  if (w->at < e->count) return TRI_OK;
  w->at = 0;
  w->tensor++;
  return TRI_OK;
}

static tri_status walk_slabs(walk *w) {
  tri_status st = TRI_OK;
  hid_t      set;
  int64_t    n;

  TRI_TRY(open_slabs(w->r, &set, &n));
  for (int64_t first = 0; first < n; first += SLAB_ROWS) {
    int64_t count = n - first < SLAB_ROWS ? n - first : SLAB_ROWS;
    TRI_TRY_DONE(read_slabs(w->r, set, first, count, w->slab));
    for (int64_t k = 0; k < count; k++) TRI_TRY_DONE(take_slab(w, &w->slab[k]));
  }
  if (w->tensor < w->r->m.n_entry)
    TRI_FAIL_DONE(TRI_EFORMAT, "%s: /integrity/slabs does not cover %s/%s", w->r->path,
                  w->r->m.entry[w->tensor].t.group, w->r->m.entry[w->tensor].t.name);
done:
  H5Dclose(set);
  return st;
}

static tri_status hash_slabs(const tri_ckpt_reader *r, int rank, int size, int64_t *bad) {
  tri_status st = TRI_OK;
  int64_t    most = 0;
  walk       w = {.r = r, .fd = -1, .rank = rank, .size = size, .bad = bad};

  for (int i = 0; i < r->m.n_entry; i++) {
    w.total_bytes += r->m.entry[i].bytes;
    if (r->m.entry[i].bytes > most) most = r->m.entry[i].bytes;
  }
  TRI_TRY_DONE(TRI_ALLOC(w.slab, SLAB_ROWS));
  TRI_TRY_DONE(TRI_ALLOC(w.buf, most < TRI_CKPT_SLAB_BYTES ? most : TRI_CKPT_SLAB_BYTES));
  if (tri_file_open(r->path, &w.fd) != TRI_OK) TRI_FAIL_DONE(TRI_EFILE, "%s: cannot be read", r->path);
  TRI_TRY_DONE(walk_slabs(&w));
done:
  if (w.fd >= 0) close(w.fd);
  TRI_FREE(w.slab);
  TRI_FREE(w.buf);
  return st;
}

static tri_status refuse_bad(const tri_ckpt_reader *r, const int64_t *bad) {
  int first = -1, n_bad = 0;

  for (int i = 0; i < r->m.n_entry; i++)
    if (bad[i] && n_bad++ == 0) first = i;
  if (n_bad)
    TRI_FAIL(TRI_EFORMAT,
             "%s: damaged, the bytes of the data set %s/%s have changed since it was written (%d of %d "
             "data sets differ)",
             r->path, r->m.entry[first].t.group, r->m.entry[first].t.name, n_bad, r->m.n_entry);
  return TRI_OK;
}

static tri_status prepare_verify(tri_ckpt_reader *r, int64_t **bad) {
  hid_t set;

  for (int i = 0; i < r->m.n_entry; i++) {
    TRI_TRY(tri_ckpt_h5_open(r->file, r->path, &r->m.entry[i], &set));
    H5Dclose(set);
  }
  return TRI_ALLOC(*bad, r->m.n_entry);
}

tri_status tri_ckpt_check_slabs(tri_ckpt_reader *r, tri_comm *world) {
  tri_status st = TRI_OK;
  int64_t   *bad = NULL;

  TRI_TRY_DONE(tri_ckpt_agree(world, prepare_verify(r, &bad)));
  TRI_TRY_DONE(tri_ckpt_agree(world, hash_slabs(r, world ? world->rank : 0, world ? world->size : 1, bad)));
  if (world) TRI_TRY_DONE(tri_host_max(world, bad, r->m.n_entry));
  TRI_TRY_DONE(tri_ckpt_agree(world, refuse_bad(r, bad)));
done:
  TRI_FREE(bad);
  return st;
}
