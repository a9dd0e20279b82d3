/* params_gather.c - packs gathered units of the parameter store, and publishes new weights. The store's
 * residence brings the units (residence.h). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "residence.h"

typedef tri_param_slot slot;
typedef tri_param_unit unit;

/* If the weight itself serves, a matrix made of blocks is a form too. */
tri_status tri_params_open_views(tri_params *p, unit *u) {
  int n_linear = u->spec->n_linear;

  TRI_TRY(TRI_ALLOC(u->view, u->spec->n_param));
  TRI_TRY(TRI_ALLOC(u->grad_view, u->spec->n_param));
  for (int use = 0; use < 2; use++) {
    TRI_TRY(TRI_ALLOC(u->packed[use], n_linear));
    TRI_TRY(TRI_ALLOC(u->packed_bytes[use], n_linear));
  }
  for (int j = 0; j < n_linear; j++) {
    const tri_blocks *blocks = &u->spec->linear[j].blocks;
    size_t            matrix = (size_t)(blocks->n_out * blocks->n_in) * tri_params_weight_bytes(p);
    tri_linear_bytes  b;
    if (matrix > p->matrix_bytes) p->matrix_bytes = matrix;
    TRI_TRY(tri_params_kernels(p)->linear_size(u->spec->linear[j].linear, &b));
    u->packed_bytes[0][j] = ((b.fwd ? b.fwd : matrix) + 255) / 256 * 256;
    u->packed_bytes[1][j] = ((b.bwd ? b.bwd : matrix) + 255) / 256 * 256;
  }
  return TRI_OK;
}

void tri_params_close_views(unit *u) {
  TRI_FREE(u->view);
  TRI_FREE(u->grad_view);
  for (int use = 0; use < 2; use++) {
    TRI_FREE(u->packed[use]);
    TRI_FREE(u->packed_bytes[use]);
  }
}

void *tri_params_packed_at(const unit *u, const slot *s, int use, int j) {
  size_t at = 0;

  for (int k = 0; k < (use ? u->spec->n_linear : j); k++) at += u->packed_bytes[0][k];
  for (int k = 0; use && k < j; k++) at += u->packed_bytes[1][k];
  return u->packed_bytes[use][j] ? (char *)s->packed_buffers + at : NULL;
}

size_t tri_params_packed_bytes(const unit *u, bool backward) {
  size_t bytes = 0;

  for (int use = 0; use <= backward; use++)
    for (int j = 0; j < u->spec->n_linear; j++) bytes += u->packed_bytes[use][j];
  return bytes;
}

tri_status tri_params_put_blocks(tri_params *p, const tri_blocks *b, const tri_tensor *x, int n,
                                 tri_stream *s, tri_tensor *w) {
  *w = tri_view2(p->matrix, p->opt.dtype, b->n_out, b->n_in);
  TRI_TRY(p->device->ops->fill(s, w->data, 0, (size_t)(b->n_out * b->n_in) * tri_params_weight_bytes(p)));
  for (int i = 0; i < n; i++) {
    tri_tensor rows = tri_rows(w, b->row[i], x[i].dim[0]);
    TRI_TRY(tri_params_kernels(p)->cols_put(s, &rows, i * x[i].dim[1], b->scale, &x[i]));
  }
  return TRI_OK;
}

/* The number of ranks that pack a form together, and this rank's number among them. */
static int packers(const tri_params *p) { return tri_shared_segment(p) ? p->comm[TRI_NODE]->size : 1; }
static int packer(const tri_params *p) { return tri_shared_segment(p) ? p->comm[TRI_NODE]->rank : 0; }

/* Packs this rank's part of the forms of linear[j] from its matrix. A product without packed forms uses the
 * matrix itself as its form, if the matrix is made of blocks. */
static tri_status pack_linear(tri_params *p, unit *u, slot *sl, int j, const bool want[2],
                              const tri_tensor *w, tri_stream *s) {
  const tri_linear_use *l = &u->spec->linear[j];
  tri_linear_bytes      b;
  void                 *to[2];

  TRI_TRY(tri_params_kernels(p)->linear_size(l->linear, &b));
  for (int use = 0; use < 2; use++) {
    size_t own = use ? b.bwd : b.fwd;
    to[use] = want[use] ? tri_params_packed_at(u, sl, use, j) : NULL;
    if (!to[use] || own) continue;
    if (j % packers(p) == packer(p))
      TRI_TRY(p->device->ops->copy(s, to[use], w->data,
                                   (size_t)tri_tensor_count(w) * tri_params_weight_bytes(p)));
    to[use] = NULL;
  }
  if (!to[0] && !to[1]) return TRI_OK;
  return tri_params_kernels(p)->linear_pack(s, l->linear, to[0], to[1], w, packer(p), packers(p));
}

tri_status tri_params_pack(tri_params *p, unit *u, slot *sl, int use, tri_stream *s) {
  char      *flat = tri_params_flat(u, sl);
  const bool want[2] = {(use & TRI_USE_FWD) && !sl->have[0], (use & TRI_USE_BWD) && !sl->have[1]};

  if (!want[0] && !want[1]) return TRI_OK;
  for (int j = 0; j < u->spec->n_linear; j++) {
    const tri_linear_use *l = &u->spec->linear[j];
    tri_tensor            x[TRI_MOST_BLOCKS] = {{0}}, w;
    for (int i = 0; i < l->n; i++) x[i] = tri_param_view(&u->spec->param[l->first + i], flat, p->opt.dtype);
    w = tri_param_view(&u->spec->param[l->first], flat, p->opt.dtype);
    TRI_ASSERT(w.ndim == 2);
    for (int i = 1; i < l->n; i++) w.dim[0] += x[i].dim[0];
    if (l->blocks.n_out) TRI_TRY(tri_params_put_blocks(p, &l->blocks, x, l->n, s, &w));
    TRI_TRY(pack_linear(p, u, sl, j, want, &w, s));
  }
  sl->have[0] |= want[0];
  sl->have[1] |= want[1];
  return TRI_OK;
}

static void show(const tri_params *p, unit *u, const slot *sl, tri_weights *out) {
  void *flat = tri_params_flat(u, sl);

  for (int i = 0; i < u->spec->n_param && !u->kept; i++) /* a slice has its views already */
    u->view[i] = tri_param_view(&u->spec->param[i], flat, p->opt.dtype);
  for (int use = 0; use < 2; use++)
    for (int j = 0; j < u->spec->n_linear; j++) {
      const tri_linear_use *l = &u->spec->linear[j];
      const tri_tensor     *matrix = &u->view[l->first];
      const void           *packed = sl->have[use] ? tri_params_packed_at(u, sl, use, j) : NULL;
      u->packed[use][j] = packed ? packed : matrix->data ? tri_rows(matrix, l->row, 1).data : NULL;
    }
  *out = (tri_weights){.t = u->view, .packed_fwd = u->packed[0], .packed_bwd = u->packed[1]};
}

/* ---- gathered units ---- */

tri_status tri_slot_arrive(tri_params *p, slot *sl, tri_stream *s) {
  if (!sl->gathering) return TRI_OK;
  sl->gathering = false;
  return p->residence->arrive(p, sl, s);
}

tri_status tri_slot_forget(tri_params *p, slot *sl, tri_stream *s) {
  TRI_TRY(tri_slot_arrive(p, sl, s));
  sl->unit = -1;
  sl->have[0] = sl->have[1] = false;
  return TRI_OK;
}

tri_status tri_params_prefetch(tri_params *p, int index, tri_stream *s) {
  return index >= 0 && p->residence->prefetch ? p->residence->prefetch(p, index, s) : TRI_OK;
}

tri_status tri_params_acquire(tri_params *p, int index, int use, int next, tri_stream *s, tri_weights *out) {
  unit *u = tri_params_shown(p, index);
  slot *sl;

  TRI_ASSERT(!(use & TRI_USE_BWD) || p->opt.backward);
  TRI_TRY(p->residence->acquire(p, index, use, s, &sl));
  sl->busy = true;
  if (((use & TRI_USE_FWD) && !sl->have[0]) || ((use & TRI_USE_BWD) && !sl->have[1])) {
    TRI_TRY(tri_shared_wait(p, u, sl));
    TRI_TRY(tri_params_pack(p, u, sl, use, s));
    TRI_TRY(tri_shared_packed(p, u, use));
  }
  show(p, u, sl, out);
  return tri_params_prefetch(p, next, s);
}

tri_status tri_params_release(tri_params *p, int index, tri_stream *s) {
  return p->residence->release(p, index, s);
}

tri_status tri_params_forget_unused(tri_params *p, tri_stream *s) {
  return p->residence->forget ? p->residence->forget(p, false, s) : TRI_OK;
}

tri_status tri_params_hold(tri_params *p, bool hold, tri_stream *s) {
  return p->residence->hold ? p->residence->hold(p, hold, s) : TRI_OK;
}

/* ---- new weights ---- */

/* Returns the communicator over which new weights travel to their holders, or NULL. */
static tri_comm *news_comm(const tri_params *p) {
  return tri_params_comm_between(p, p->layout.plan.params, p->layout.plan.optim);
}

/* Collective. Waits for the unit whose new weights are on their way. */
static tri_status finish_news(tri_params *p, tri_stream *s) {
  tri_param_flight *f = &p->news;

  if (!f->unit) return TRI_OK;
  f->unit = NULL;
  return tri_comm_wait(news_comm(p), &f->req, s);
}

tri_status tri_params_publish(tri_params *p, int index, tri_stream *s) {
  unit     *u = &p->unit[index];
  tri_comm *c = news_comm(p);

  if (u->own) TRI_TRY(tri_slot_forget(p, u->own, s));
  TRI_TRY(finish_news(p, s));
  if (!c || c->size == 1) return TRI_OK;
  p->news.unit = u;
  return tri_params_exchange(p, u,
                             &(tri_exchange){"new weights", TRI_ALL_GATHER, p->layout.plan.params,
                                             p->layout.plan.optim, u->weight, NULL, p->opt.dtype},
                             s, &p->news.req);
}

tri_status tri_params_publish_end(tri_params *p, tri_stream *s) {
  TRI_TRY(finish_news(p, s));
  TRI_TRY(tri_offload_settle(p, s));
  return tri_shared_barrier(p);
}
