/* first_update.c - checks after the first optimizer step that every trained tensor moved and that copies are
 * equal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "first_update.h"

#include "base/hash.h"
#include "base/host_memory.h"
#include "base/notice.h"
#include "params_impl.h"

#define SURE_RATE 1e-6 /* chosen. Adam's first step is about the rate, which moves any f32 below 8 */

enum {
  PIECE_BYTES = 4 << 20, /* chosen, host memory for copies from a device */
  KINDS = 2
}; /* weights and first moments */

/* Tensors that did not move. The store owns the names. NULL if there is none. */
typedef struct found {
  int         n_tensor;
  int         n_idle, n_stuck; /* tensors with unchanged first moments, and others with unchanged weights */
  const char *first_idle, *first_stuck;
} found;

static int count_tensors(const tri_params *p) {
  int n = 0;

  for (int u = 0; u < p->opt.n_unit; u++) n += p->opt.unit[u].n_param;
  return n;
}

/* ---- hashes ---- */

/* An array of a unit to hash, this rank's share by a scope, of elements of `each` bytes. */
typedef struct array {
  const void     *base;
  tri_shard_scope scope;
  size_t          each;
} array;

/* Hashes the elements of unit[u].param[i] in this rank's share by scope `part`, through buf [PIECE_BYTES]. */
static tri_status hash_param(tri_params *p, int u, int i, const array *a, tri_shard_scope part, char *buf,
                             tri_stream *s, uint64_t *hash) {
  tri_range   r = tri_layout_piece(&p->layout, u, i, part);
  size_t      bytes = (size_t)r.count * a->each;
  const char *from = a->base;

  *hash = 0;
  if (!r.count) return TRI_OK;
  from += (size_t)tri_layout_at(&p->layout, u, a->scope, p->opt.unit[u].param[i].offset + r.begin) * a->each;
  for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
    size_t n = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
    TRI_TRY(p->device->ops->copy(s, buf, from + done, n));
    TRI_TRY(p->device->ops->stream_sync(s));
    *hash = tri_hash64(buf, n, *hash);
  }
  return TRI_OK;
}

/* The f32 state of this kind on this rank. Weights in f32 are their own master copy. */
static array state_of(const tri_params *p, int u, tri_state_kind kind) {
  const float *state = p->unit[u].state[kind];

  return state ? (array){state, p->layout.plan.optim, sizeof *state}
               : (array){p->unit[u].weight, p->layout.plan.params, sizeof *state};
}

/* Hashes this rank's piece of every tensor in files, so that each element is hashed once over all ranks. */
static tri_status hash_pieces(tri_params *p, tri_stream *s, char *buf, uint64_t *hash) {
  for (int u = 0; u < p->opt.n_unit; u++) {
    const array a[KINDS] = {state_of(p, u, TRI_STATE_WEIGHT), state_of(p, u, TRI_STATE_EXP_AVG)};
    for (int i = 0; i < p->opt.unit[u].n_param; i++)
      for (int k = 0; k < KINDS; k++) TRI_TRY(hash_param(p, u, i, &a[k], TRI_SHARD_WORLD, buf, s, hash++));
  }
  return TRI_OK;
}

/* Hashes all elements of every tensor on this rank, of the weights in the compute type or of its optimizer
 * share. */
static tri_status hash_copies(tri_params *p, tri_stream *s, char *buf, bool share, uint64_t *hash) {
  for (int u = 0; u < p->opt.n_unit; u++) {
    array a = {p->unit[u].weight, p->layout.plan.params, tri_params_weight_bytes(p)};
    if (share) a = state_of(p, u, TRI_STATE_WEIGHT);
    for (int i = 0; i < p->opt.unit[u].n_param; i++)
      TRI_TRY(hash_param(p, u, i, &a, a.scope, buf, s, hash++));
  }
  return TRI_OK;
}

/* ---- moved tensors ---- */

/* moved [n][KINDS] is 1 if any rank's piece changed. */
static void judge(const tri_params *p, const int64_t *moved, found *out) {
  *out = (found){0};
  for (int u = 0; u < p->opt.n_unit; u++)
    for (int i = 0; i < p->opt.unit[u].n_param; i++, moved += KINDS) {
      const char *name = p->opt.unit[u].param[i].name;
      out->n_tensor++;
      if (!moved[1] && p->opt.unit[u].param[i].waits) continue;
      if (!moved[1]) {
        if (!out->n_idle++) out->first_idle = name;
      } else if (!moved[0] && !out->n_stuck++)
        out->first_stuck = name;
    }
}

/* Makes a notice about n tensors with the name of the first one. */
static tri_notice notice_of(const char *code, int n, const char *first, const found *f) {
  return (tri_notice){.code = code,
                      .of = first,
                      .step = -1,
                      .number = {{"tensors", n}, {"all_tensors", f->n_tensor}},
                      .n_number = 2};
}

static void say(const tri_params *p, const found *f, double learning_rate) {
  tri_notice idle = notice_of("tensors_without_gradient", f->n_idle, f->first_idle, f),
             stuck = notice_of("tensors_unmoved", f->n_stuck, f->first_stuck, f);

  if (f->n_idle)
    tri_warn_like(
        &idle,
        "%d of %d tensors of the %s got no gradient in the first optimizer step, first %s. This happens if "
        "a tensor that its output goes through is all 0. Check the weights.",
        f->n_idle, f->n_tensor, p->opt.label, f->first_idle);
  if (f->n_stuck && learning_rate >= SURE_RATE)
    tri_warn_like(
        &stuck,
        "%d of %d tensors of the %s did not change in the first optimizer step, first %s. The steps are "
        "too small to change 32-bit weights. Raise the learning rate (now %g).",
        f->n_stuck, f->n_tensor, p->opt.label, f->first_stuck, learning_rate);
}

/* Collective over world. Finds unmoved tensors from the hashes before and now, both [n][KINDS]. */
static tri_status find_idle(tri_params *p, const uint64_t *before, const uint64_t *now, found *out) {
  int64_t    n = KINDS * (int64_t)count_tensors(p), *moved = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(moved, n));
  for (int64_t i = 0; i < n; i++) moved[i] = now[i] != before[i];
  TRI_TRY_DONE(tri_host_max(p->comm[TRI_WORLD], moved, n));
  judge(p, moved, out);
done:
  TRI_FREE(moved);
  return st;
}

/* ---- copies ---- */

static const char *name_of(const tri_params *p, int index) {
  int u = 0;

  for (; index >= p->opt.unit[u].n_param; u++) index -= p->opt.unit[u].n_param;
  return p->opt.unit[u].param[index].name;
}

/* Returns the ranks that hold the same part of a state divided by s, or NULL for none. */
static tri_comm *holders(const tri_params *p, tri_shard_scope s) {
  tri_comm *c = s == TRI_SHARD_NONE ? p->comm[TRI_WORLD] : s == TRI_SHARD_NODE ? p->comm[TRI_CROSS] : NULL;

  return c && c->size > 1 ? c : NULL;
}

/* all [n_rank][1 + n] holds each rank's number in the world and then its hashes. */
static tri_status compare(const tri_params *p, const uint64_t *all, int n_rank, int n, const char *what) {
  for (int r = 1; r < n_rank; r++) {
    const uint64_t *other = all + (size_t)r * (size_t)(n + 1);
    for (int i = 1; i <= n; i++)
      if (other[i] != all[i])
        TRI_FAIL(
            TRI_ENUMERIC,
            "after the first optimizer step ranks %d and %d hold different %s of the %s, first in tensor "
            "%s. They must be equal bit for bit, so this run is useless. Start it on other nodes, or look "
            "for a failing device or network on these nodes.",
            (int)all[0], (int)other[0], what, p->opt.label, name_of(p, i - 1));
  }
  return TRI_OK;
}

/* Collective over the holders, if there are any. */
static tri_status check_copies(tri_params *p, tri_stream *s, bool share) {
  tri_comm  *c = holders(p, share ? p->opt.plan.optim : p->opt.plan.params);
  int        n = count_tensors(p);
  uint64_t  *mine = NULL;
  tri_status st = TRI_OK;
  char      *buf = NULL;
  void      *all = NULL;
  size_t    *counts = NULL;

  if (!c) return TRI_OK;
  st = tri_pages_alloc(PIECE_BYTES, (void **)&buf);
  if (st == TRI_OK) st = TRI_ALLOC(mine, n + 1);
  if (st == TRI_OK) st = TRI_ALLOC(counts, c->size);
  if (st == TRI_OK) st = hash_copies(p, s, buf, share, mine + 1);
  TRI_TRY_DONE(tri_agree(c, st));
  mine[0] = (uint64_t)p->comm[TRI_WORLD]->rank;
  TRI_TRY_DONE(tri_host_gather_all(c, mine, (size_t)(n + 1) * sizeof *mine, &all, counts));
  TRI_TRY_DONE(compare(p, all, c->size, n, share ? "master weights" : "weights"));
done:
  tri_pages_free((void **)&buf);
  TRI_FREE(mine);
  TRI_FREE(counts);
  tri_host_free(&all);
  return st;
}

tri_status tri_first_update_copies(tri_params *p, tri_stream *s) {
  TRI_TRY(tri_agree(p->comm[TRI_WORLD], check_copies(p, s, false)));
  return p->opt.train ? tri_agree(p->comm[TRI_WORLD], check_copies(p, s, true)) : TRI_OK;
}

tri_status tri_first_update_check(tri_params *p, const tri_optim_opt *opt, const tri_optim_now *now,
                                  tri_stream *s, double *grad_norm, bool *applied) {
  tri_comm  *world = p->comm[TRI_WORLD];
  int64_t    n = KINDS * (int64_t)count_tensors(p);
  tri_status st = TRI_OK;
  char      *buf = NULL;
  uint64_t  *hash = NULL; /* before the step, then after it */
  found      seen = {0};

  st = tri_pages_alloc(PIECE_BYTES, (void **)&buf);
  if (st == TRI_OK) st = TRI_ALLOC(hash, 2 * n);
  if (st == TRI_OK) st = hash_pieces(p, s, buf, hash);
  TRI_TRY_DONE(tri_agree(world, st));
  TRI_TRY_DONE(tri_optim_step(p, opt, now, s, grad_norm, applied));
  if (!*applied || *grad_norm == 0) goto done;
  TRI_TRY_DONE(tri_agree(world, hash_pieces(p, s, buf, hash + n)));
  TRI_TRY_DONE(find_idle(p, hash, hash + n, &seen));
  if (world->rank == 0) say(p, &seen, now->learning_rate);
  TRI_TRY_DONE(tri_first_update_copies(p, s));
done:
  tri_pages_free((void **)&buf);
  TRI_FREE(hash);
  return st;
}
