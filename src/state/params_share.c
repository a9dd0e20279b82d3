/* params_share.c - shares packed forms and weights among the ranks of one node, so that they exist there
 * once.
 *
 * Each rank packs its part of a form. If the weights are divided among these ranks alone, each rank stores
 * its share where all ranks read all weights, and nothing is gathered (residence_segment.c). If each rank has
 * all weights (shard.params: none), it keeps its own forms too. A rank may then use a unit when the others do
 * not, and nobody would pack their parts.
 *
 * Generation counters of the shared segment order the ranks. A form is packed after all ranks have released
 * the previous content of its slot (residence_ring.c). It is read after all ranks have packed their parts.
 * Weights are written between tri_params_grad_settle and tri_params_publish_end, and all ranks meet at both.
 *
 * They also meet when the workspace of one phase goes to another phase, or that of one model to another
 * model, because a rank's piece of the shared segment may then be reused by other data. A store that does not
 * share cannot order this for a store that does (critic.shard, reference.shard). So a model that begins to
 * compute makes the model before it drop its gathered weights, and then drops its own (model/open.c).
 * Dropping is a barrier. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "residence.h"

enum { ALIGN = 256 };

/* Kinds of generation counters in a store's shared segment. TRI_USE_* is added to PACKED. */
enum { BARRIER, FREED, PACKED, KINDS = PACKED + 4 };

/* Memory shared by the ranks of a store in one phase. If sharing fails, a rank uses memory of its own. */
typedef struct buffers {
  size_t       bytes;
  bool         state;
  void        *piece;   /* this rank's piece of the shared segment, from the ledger */
  tri_segment *segment; /* owned, or NULL */
  void        *own;     /* owned, or NULL */
  struct part {
    void **where;
    size_t at;
  } * part; /* [n_part], owned */
  int64_t cap;
  int     n_part;
} buffers;

struct tri_shared {
  bool    bound; /* tri_shared_bind has placed the memory */
  buffers phase[TRI_PHASE_ALWAYS + 1];
};

tri_status tri_shared_open(tri_params *p, bool *all) {
  const tri_comm *node = p->comm[TRI_NODE], *c = tri_params_comm(p, p->layout.plan.params);

  *all = false;
  if (!node->near || !tri_params_splits(p, p->layout.plan.params)) return TRI_OK;
  TRI_TRY(TRI_ALLOC(p->shared, 1));
  *all = c->size == node->size;
  /* unused bytes, so that the segment of this phase, which all phases use for barriers, always exists */
  p->shared->phase[TRI_PHASE_ALWAYS].bytes = ALIGN;
  return TRI_OK;
}

tri_status tri_shared_plan_part(tri_params *p, tri_phase phase, bool state, size_t bytes, void **where) {
  buffers *r = &p->shared->phase[phase];

  *where = NULL;
  if (!bytes) return TRI_OK;
  TRI_TRY(TRI_GROW(r->part, r->cap, r->n_part + 1));
  r->part[r->n_part++] = (struct part){where, r->bytes};
  r->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
  r->state |= state;
  return TRI_OK;
}

tri_status tri_shared_plan_forms(tri_params *p, tri_ledger *l, tri_phase phase, size_t bytes, void **where) {
  return p->shared ? tri_shared_plan_part(p, phase, false, bytes, where)
                   : tri_params_plan_work(p, l, phase, "packed weights", bytes, where);
}

tri_status tri_shared_plan(tri_params *p, tri_ledger *l) {
  for (int phase = 0; p->shared && phase <= TRI_PHASE_ALWAYS; phase++) {
    buffers *r = &p->shared->phase[phase];
    size_t   piece = tri_segment_piece_bytes(r->bytes, p->comm[TRI_NODE]->size);
    if (!r->bytes) continue;
    TRI_TRY(r->state
                ? tri_params_plan(p, l, TRI_MEM_DEVICE, (tri_phase)phase, true, "weights", piece, &r->piece)
                : tri_params_plan_work(p, l, (tri_phase)phase, "packed weights", piece, &r->piece));
  }
  return TRI_OK;
}

/* Collective over the node. *all is true if every workspace has its shared segment. Otherwise none has. */
static tri_status open_segments(tri_params *p, bool *all) {
  *all = true;
  for (int phase = 0; phase <= TRI_PHASE_ALWAYS && *all; phase++) {
    buffers *r = &p->shared->phase[phase];
    if (!r->bytes) continue;
    TRI_TRY(tri_segment_open(p->comm[TRI_NODE], r->piece, r->bytes, &r->segment));
    *all = r->segment != NULL;
  }
  for (int phase = 0; phase <= TRI_PHASE_ALWAYS && !*all; phase++)
    tri_segment_close(&p->shared->phase[phase].segment);
  return TRI_OK;
}

static tri_status alloc_own(tri_params *p) {
  size_t more = 0;

  for (buffers *r = p->shared->phase; r <= p->shared->phase + TRI_PHASE_ALWAYS; r++) {
    if (!r->bytes) continue;
    TRI_TRY(tri_pages_alloc(r->bytes, &r->own));
    more += r->bytes;
  }
  tri_log(TRI_LOG_INFO,
          "%s: shared memory between the ranks of this node could not be set up. Each rank keeps its own "
          "weights, %.3f GiB more than planned. Give run.collectives: mpi to plan for it.",
          p->opt.label, (double)more / 0x1p30);
  return TRI_OK;
}

tri_status tri_shared_bind(tri_params *p) {
  bool all;

  if (!p->shared || p->shared->bound) return TRI_OK;
  p->shared->bound = true;
  TRI_TRY(open_segments(p, &all));
  TRI_TRY(tri_agree(p->comm[TRI_WORLD], all ? TRI_OK : alloc_own(p)));
  for (buffers *r = p->shared->phase; r <= p->shared->phase + TRI_PHASE_ALWAYS; r++) {
    char *base = r->segment ? tri_segment_base(r->segment) : r->own;
    for (int i = 0; i < r->n_part; i++) *r->part[i].where = base + r->part[i].at;
  }
  for (tri_param_unit *u = p->unit; u < p->unit + p->opt.n_unit; u++)
    if (u->whole)
      u->weight = (char *)u->whole +
                  (size_t)tri_params_share(p, u, 0, p->layout.plan.params).begin * tri_params_weight_bytes(p);
  return TRI_OK;
}

void tri_shared_close(tri_params *p) {
  for (int phase = 0; p->shared && phase <= TRI_PHASE_ALWAYS; phase++) {
    buffers *r = &p->shared->phase[phase];
    tri_segment_close(&r->segment);
    tri_pages_free(&r->own);
    TRI_FREE(r->part);
  }
  TRI_FREE(p->shared);
}

/* ---- the order of the ranks ---- */

tri_segment *tri_shared_segment(const tri_params *p) {
  return p->shared ? p->shared->phase[TRI_PHASE_ALWAYS].segment : NULL;
}

tri_status tri_shared_barrier(tri_params *p) {
  return tri_shared_segment(p) ? tri_segment_barrier(tri_shared_segment(p), BARRIER) : TRI_OK;
}

static uint32_t generation(const tri_params *p, const tri_param_unit *u, int kind) {
  return (uint32_t)(tri_params_index(p, u) * KINDS + kind);
}

void tri_shared_freed(tri_params *p, const tri_param_unit *u, tri_param_slot *sl) {
  if (u->spec->n_linear && tri_shared_segment(p))
    sl->freed = tri_segment_generation(tri_shared_segment(p), generation(p, u, FREED));
}

tri_status tri_shared_wait(tri_params *p, const tri_param_unit *u, const tri_param_slot *sl) {
  if (!u->spec->n_linear || !tri_shared_segment(p)) return TRI_OK;
  tri_rank_status_carry(p->opt.label, u->spec->name, "space for packed weights");
  return tri_segment_wait(tri_shared_segment(p), sl->freed);
}

tri_status tri_shared_packed(tri_params *p, const tri_param_unit *u, int use) {
  if (!u->spec->n_linear || !tri_shared_segment(p)) return TRI_OK;
  tri_rank_status_carry(p->opt.label, u->spec->name, "packed weights");
  return tri_segment_barrier(tri_shared_segment(p), generation(p, u, PACKED + use));
}
