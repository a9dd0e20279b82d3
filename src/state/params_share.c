/* params_share.c - shares packed forms and weights among the ranks of one node, so that they exist there
 * once.
 *
 * Each rank packs its part of a form. If the weights are divided among these ranks alone, each rank stores
 * its share where all ranks read all weights, and nothing is gathered. If each rank has all weights
 * (shard.params: none), it keeps its own forms too. A rank may then use a unit when the others do not, and
 * nobody would pack their parts.
 *
 * Generation counters of the shared segment order the ranks. A form is packed after all ranks have
 * released the previous content of its slot (params_gather.c). It is read after all ranks have packed
 * their parts. Weights are written between tri_params_grad_settle and tri_params_publish_end, and all
 * ranks meet at both.
 *
 * They also meet when the workspace of one phase goes to another phase, because in the new phase a rank's
 * piece of the shared segment may be reused by other data. A store that does not share cannot order this for
 * a store that does (critic.shard, reference.shard). So the code that changes the phase makes the other
 * stores drop their gathered weights, before the change and after it. Dropping is a barrier. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "params_impl.h"

#include <stdio.h>

enum { ALIGN = 256 };

tri_status tri_params_share(tri_params *p, tri_phase phase, bool state, size_t bytes, void **where) {
  tri_param_buffers *r = &p->buffers[phase];

  *where = NULL;
  if (!bytes) return TRI_OK;
  TRI_TRY(TRI_GROW(r->part, r->cap, r->n_part + 1));
  r->part[r->n_part++] = (struct tri_param_part){where, r->bytes};
  r->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
  r->state |= state;
  return TRI_OK;
}

tri_status tri_params_share_plan(tri_params *p, tri_ledger *l) {
  if (p->shares) TRI_TRY(tri_params_share(p, TRI_PHASE_ALWAYS, false, ALIGN, &p->passes));
  for (int phase = 0; phase <= TRI_PHASE_ALWAYS; phase++) {
    tri_param_buffers *r = &p->buffers[phase];
    char               name[48];
    if (!r->bytes) continue;
    snprintf(name, sizeof name, "%s %s", p->opt.label, r->state ? "weights" : "packed weights");
    TRI_TRY(tri_ledger_add(l, TRI_MEM_DEVICE, (tri_phase)phase, r->state, name,
                           tri_segment_piece_bytes(r->bytes, p->comm[TRI_NODE]->size), &r->piece));
  }
  return TRI_OK;
}

/* Collective over the node. *all is true if every workspace has its shared segment. Otherwise none has. */
static tri_status open_segments(tri_params *p, bool *all) {
  *all = true;
  for (int phase = 0; phase <= TRI_PHASE_ALWAYS && *all; phase++) {
    tri_param_buffers *r = &p->buffers[phase];
    if (!r->bytes) continue;
    TRI_TRY(tri_segment_open(p->comm[TRI_NODE], r->piece, r->bytes, &r->segment));
    *all = r->segment != NULL;
  }
  for (int phase = 0; phase <= TRI_PHASE_ALWAYS && !*all; phase++)
    tri_segment_close(&p->buffers[phase].segment);
  return TRI_OK;
}

static tri_status alloc_own(tri_params *p) {
  size_t more = 0;

  for (int phase = 0; phase <= TRI_PHASE_ALWAYS; phase++) {
    tri_param_buffers *r = &p->buffers[phase];
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

tri_status tri_params_share_bind(tri_params *p) {
  bool all;

  if (!p->shares || p->bound) return TRI_OK;
  p->bound = true;
  TRI_TRY(open_segments(p, &all));
  TRI_TRY(tri_agree(p->comm[TRI_WORLD], all ? TRI_OK : alloc_own(p)));
  for (int phase = 0; phase <= TRI_PHASE_ALWAYS; phase++) {
    tri_param_buffers *r = &p->buffers[phase];
    char              *base = r->segment ? tri_segment_base(r->segment) : r->own;
    for (int i = 0; i < r->n_part; i++) *r->part[i].where = base + r->part[i].at;
  }
  for (int i = 0; i < p->opt.n_unit && p->in_place; i++) {
    tri_param_unit *u = &p->unit[i];
    u->weight = (char *)u->whole + (size_t)u->rp.begin * tri_params_weight_bytes(p);
  }
  return TRI_OK;
}

void tri_params_share_close(tri_params *p) {
  for (int phase = 0; phase <= TRI_PHASE_ALWAYS; phase++) {
    tri_segment_close(&p->buffers[phase].segment);
    tri_pages_free(&p->buffers[phase].own);
    TRI_FREE(p->buffers[phase].part);
  }
}

tri_status tri_params_barrier(tri_params *p) {
  return tri_params_segment(p) ? tri_segment_barrier(tri_params_segment(p), TRI_GENERATION_BARRIER) : TRI_OK;
}
