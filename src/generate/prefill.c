/* prefill.c - brings known tokens into the cache, many sequences in one forward pass. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "prefill.h"

#include "base/host_memory.h"

typedef struct staging {
  int32_t *token, *pos, *slot; /* [max_tokens] */
  int32_t *cu;                 /* [max_sequences+1] */
  int32_t *state, *fresh;      /* [max_sequences] */
} staging;

struct tri_prefill {
  tri_device *device; /* borrowed */
  tri_model  *model;  /* borrowed */
  tri_kv     *kv;     /* borrowed */
  int64_t     max_tokens;
  int         max_sequences;
  bool        recurrent; /* the model has recurrent layers */
  staging     d, h;      /* on the device, and in pinned host memory */
  tri_event  *copied;    /* the host's arrays have reached the device */
  int64_t     n;         /* staged tokens */
  int         n_seq;     /* staged sequences */
};

tri_status tri_prefill_open(tri_device *d, tri_ledger *ledger, tri_model *m, tri_kv *kv, int64_t max_tokens,
                            int max_sequences, tri_prefill **out) {
  tri_prefill *p;
  size_t       N = (size_t)max_tokens * 4, S = ((size_t)max_sequences + 1) * 4;

  TRI_TRY(TRI_ALLOC(*out, 1));
  p = *out;
  p->device = d;
  p->model = m;
  p->kv = kv;
  p->max_tokens = max_tokens;
  p->max_sequences = max_sequences;
  p->recurrent = tri_recurrent_layers(tri_model_get_shape(m)) > 0;
  struct {
    void  *device, *host;
    size_t bytes;
  } r[] = {{&p->d.token, &p->h.token, N},
           {&p->d.pos, &p->h.pos, N},
           {&p->d.slot, &p->h.slot, N},
           {&p->d.cu, &p->h.cu, S},
           {&p->d.state, &p->h.state, p->recurrent ? S : 0},
           {&p->d.fresh, &p->h.fresh, p->recurrent ? S : 0}};
  for (size_t i = 0; i < sizeof r / sizeof *r; i++) {
    TRI_TRY(tri_ledger_add(ledger, TRI_MEM_DEVICE, TRI_PHASE_ROLLOUT, false, "decode staging", r[i].bytes,
                           r[i].device));
    TRI_TRY(tri_ledger_add(ledger, TRI_MEM_PINNED, TRI_PHASE_ROLLOUT, false, "decode staging", r[i].bytes,
                           r[i].host));
  }
  return TRI_OK;
}

void tri_prefill_close(tri_prefill **p) {
  if (!*p) return;
  if ((*p)->copied) (*p)->device->ops->event_close(&(*p)->copied);
  TRI_FREE(*p);
}

tri_status tri_prefill_begin(tri_prefill *p) {
  p->n = p->n_seq = 0;
  return p->copied ? TRI_OK : p->device->ops->event_open(p->device, &p->copied);
}

/* Copies the states of the staged sequences to the device and gives the batch views of them. */
static tri_status give_states(tri_prefill *p, int n_seq, tri_batch *b, tri_stream *s) {
  const tri_device_ops *ops = p->device->ops;
  size_t                bytes = (size_t)n_seq * 4;

  if (!p->recurrent) return TRI_OK;
  b->state = tri_view1(p->d.state, TRI_I32, n_seq);
  b->fresh = tri_view1(p->d.fresh, TRI_I32, n_seq);
  TRI_TRY(ops->copy(s, p->d.state, p->h.state, bytes));
  return ops->copy(s, p->d.fresh, p->h.fresh, bytes);
}

tri_status tri_prefill_run(tri_prefill *p, tri_stream *s) {
  const tri_device_ops *ops = p->device->ops;
  tri_batch             b = {.token = tri_view1(p->d.token, TRI_I32, p->n),
                             .pos = tri_view1(p->d.pos, TRI_I32, p->n),
                             .slot = tri_view1(p->d.slot, TRI_I32, p->n),
                             .cu = tri_view1(p->d.cu, TRI_I32, p->n_seq + 1)};
  size_t                bytes = (size_t)p->n * 4, cu_bytes = ((size_t)p->n_seq + 1) * 4;
  int                   n_seq = p->n_seq;

  if (!p->n) return TRI_OK;
  p->n = p->n_seq = 0;
  TRI_TRY(ops->copy(s, p->d.token, p->h.token, bytes));
  TRI_TRY(ops->copy(s, p->d.pos, p->h.pos, bytes));
  TRI_TRY(ops->copy(s, p->d.slot, p->h.slot, bytes));
  TRI_TRY(ops->copy(s, p->d.cu, p->h.cu, cu_bytes));
  TRI_TRY(give_states(p, n_seq, &b, s));
  TRI_TRY(ops->event_record(p->copied, s));
  return tri_model_prefill(p->model, &b, p->kv, s);
}

static int32_t token_at(const tri_request *r, int64_t i) {
  return i < r->prompt->n_token ? r->prompt->token[i] : r->token[i - r->prompt->n_token];
}

tri_status tri_prefill_add(tri_prefill *p, const tri_request *r, int64_t n, const int32_t *page,
                           int64_t written, int32_t state, tri_stream *s) {
  TRI_ASSERT(n <= p->max_tokens && (state >= 0) == p->recurrent);
  if (!n) return TRI_OK;
  if (p->n_seq == p->max_sequences || p->n + n > p->max_tokens) TRI_TRY(tri_prefill_run(p, s));
  if (!p->n_seq) TRI_TRY(p->device->ops->event_sync(p->copied)); /* the host's arrays are filled again */
  for (int64_t i = 0; i < n; i++, p->n++) {
    int64_t at = i / TRI_PAGE;
    p->h.token[p->n] = token_at(r, i);
    p->h.pos[p->n] = (int32_t)i;
    p->h.slot[p->n] = at < written ? -1 : page[at] * TRI_PAGE + (int32_t)(i % TRI_PAGE);
  }
  if (!p->n_seq) p->h.cu[0] = 0;
  if (p->recurrent) {
    p->h.state[p->n_seq] = state;
    p->h.fresh[p->n_seq] = 1;
  }
  p->h.cu[++p->n_seq] = (int32_t)p->n;
  return TRI_OK;
}
