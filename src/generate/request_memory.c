/* request_memory.c - memory for the tokens of requests. Each answer on its way has space for its full length,
 * and answers that have ended are packed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "request_memory.h"

#include "base/host_memory.h"

#include <string.h>

/* The arrays of one or more answers. */
typedef struct arrays {
  int32_t *token;
  float   *logp;
  uint8_t *mark;
} arrays;

struct tri_request_memory {
  int     max_open;
  int64_t max_answers, max_new;
  arrays  open;  /* [max_open,max_new], owned by the ledger */
  int    *spare; /* [max_open] spaces that no answer has, a stack */
  int     n_spare;
  /* If max_answers is set, all answers lie here, one after the other. The ledger owns these. */
  arrays        packed;
  int64_t       n_packed; /* tokens */
  tri_request  *list;     /* [max_answers] */
  tri_request **queue;    /* [max_answers] */
  /* Else each answer has memory of its own. */
  arrays *own; /* [n_own] */
  int64_t n_own, own_cap;
};

static tri_status plan_arrays(tri_ledger *l, int64_t n_token, arrays *a) {
  const char *name = "finished answers";
  size_t      n = (size_t)n_token;

  TRI_TRY(tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, name, n * 4, (void **)&a->token));
  TRI_TRY(tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, name, n * 4, (void **)&a->logp));
  return tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, name, n, (void **)&a->mark);
}

tri_status tri_request_memory_open(tri_ledger *l, int max_open, int64_t max_answers, int64_t max_new,
                                   tri_request_memory **out) {
  const char         *name = "finished answers";
  size_t              n = (size_t)max_answers;
  tri_request_memory *m;

  TRI_TRY(TRI_ALLOC(*out, 1));
  m = *out;
  m->max_open = max_open;
  m->max_answers = max_answers;
  m->max_new = max_new;
  TRI_TRY(TRI_ALLOC(m->spare, max_open));
  TRI_TRY(plan_arrays(l, max_open * max_new, &m->open));
  TRI_TRY(plan_arrays(l, max_answers * max_new, &m->packed));
  TRI_TRY(tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, name, n * sizeof *m->list,
                         (void **)&m->list));
  return tri_ledger_add(l, TRI_MEM_HOST, TRI_PHASE_ROLLOUT, false, name, n * sizeof *m->queue,
                        (void **)&m->queue);
}

static void free_own(tri_request_memory *m) {
  for (int64_t i = 0; i < m->n_own; i++) {
    TRI_FREE(m->own[i].token);
    TRI_FREE(m->own[i].logp);
    TRI_FREE(m->own[i].mark);
  }
  m->n_own = 0;
}

void tri_request_memory_close(tri_request_memory **m) {
  if (!*m) return;
  free_own(*m);
  TRI_FREE((*m)->own);
  TRI_FREE((*m)->spare);
  TRI_FREE(*m);
}

void tri_request_memory_begin(tri_request_memory *m) {
  free_own(m);
  m->n_packed = 0;
  for (m->n_spare = 0; m->n_spare < m->max_open; m->n_spare++)
    m->spare[m->n_spare] = m->max_open - 1 - m->n_spare;
}

static arrays arrays_at(const arrays *a, int64_t at) {
  return (arrays){a->token + at, a->logp + at, a->mark + at};
}

/* Copies the tokens of a request to a, where they lie from now on. */
static void move_to(tri_request *r, const arrays *a) {
  size_t n = (size_t)r->n;

  if (n) {
    memcpy(a->token, r->token, n * sizeof *a->token);
    memcpy(a->logp, r->logp, n * sizeof *a->logp);
    memcpy(a->mark, r->mark, n);
  }
  r->token = a->token;
  r->logp = a->logp;
  r->mark = a->mark;
}

/* Returns the number of the request's space, or -1. Compares addresses as numbers, since the tokens may lie
 * in other memory. */
static int64_t space_of(const tri_request_memory *m, const tri_request *r) {
  uintptr_t at = (uintptr_t)r->token, begin = (uintptr_t)m->open.token;
  size_t    each = (size_t)m->max_new * sizeof *r->token;

  if (at < begin || at >= begin + (size_t)m->max_open * each) return -1;
  return (int64_t)((at - begin) / each);
}

bool tri_request_memory_has(const tri_request_memory *m, const tri_request *r) { return space_of(m, r) >= 0; }

void tri_request_memory_take(tri_request_memory *m, tri_request *r) {
  arrays a;

  if (tri_request_memory_has(m, r)) return;
  TRI_ASSERT(m->n_spare > 0 && r->n <= m->max_new);
  a = arrays_at(&m->open, m->spare[--m->n_spare] * m->max_new);
  move_to(r, &a);
}

static tri_status alloc_arrays(tri_request_memory *m, int64_t n, arrays *out) {
  arrays *a;

  TRI_TRY(TRI_GROW(m->own, m->own_cap, m->n_own + 1));
  a = &m->own[m->n_own++];
  *a = (arrays){0};
  TRI_TRY(TRI_ALLOC(a->token, n));
  TRI_TRY(TRI_ALLOC(a->logp, n));
  TRI_TRY(TRI_ALLOC(a->mark, n));
  *out = *a;
  return TRI_OK;
}

tri_status tri_request_memory_pack(tri_request_memory *m, tri_request *r) {
  int64_t space = space_of(m, r);
  arrays  a;

  TRI_ASSERT(space >= 0 && (!m->max_answers || m->n_packed + r->n <= m->max_answers * m->max_new));
  if (m->max_answers) {
    a = arrays_at(&m->packed, m->n_packed);
    m->n_packed += r->n;
  } else {
    TRI_TRY(alloc_arrays(m, r->n, &a));
  }
  move_to(r, &a);
  m->spare[m->n_spare++] = (int)space;
  return TRI_OK;
}

tri_request  *tri_request_memory_list(const tri_request_memory *m) { return m->list; }
tri_request **tri_request_memory_queue(const tri_request_memory *m) { return m->queue; }

tri_status tri_request_collect(const tri_request *r, int n, int group, tri_rollout *out) {
  int64_t n_tok = 0, at = 0;

  for (int i = 0; i < n; i++) n_tok += r[i].prompt->n_token + r[i].n;
  TRI_TRY(tri_rollout_make(n, n_tok, group, 0, out));
  for (int i = 0; i < n; i++) {
    const tri_prompt *p = r[i].prompt;
    out->start[i] = at;
    out->prompt_id[i] = p->id;
    out->place[i] = (int32_t)r[i].place;
    out->sample[i] = (int32_t)r[i].sample;
    out->prompt_len[i] = p->n_token;
    out->stop[i] = (int32_t)r[i].stop;
    memcpy(out->token + at, p->token, (size_t)p->n_token * 4);
    at += p->n_token;
    memcpy(out->token + at, r[i].token, (size_t)r[i].n * 4);
    memcpy(out->old_logp + at, r[i].logp, (size_t)r[i].n * 4);
    if (out->mark) memcpy(out->mark + at, r[i].mark, (size_t)r[i].n);
    at += r[i].n;
  }
  out->start[n] = at;
  out->has_logp = true;
  return TRI_OK;
}
