/* kv.c - the cache of a generation: pages of keys and values, the number of holders per page, and states of
 * recurrent layers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "kv.h"

#include "base/columns.h"
#include "base/host_memory.h"

#include <stdio.h>

/* Numbers that are free, the next one last. */
typedef struct stack {
  int32_t *free; /* [all] */
  int64_t  all, n_free;
} stack;

struct tri_kv {
  tri_device    *device; /* borrowed */
  tri_heads      heads;
  tri_delta_rule rule; /* Hv is 0 without recurrent layers */
  int            layers, attending, recurrent;
  tri_dtype      dtype;
  stack          pages, states;
  int32_t       *holders; /* [pages] */
  int32_t       *number;  /* [layers] its number among the layers that attend, or among the recurrent ones */
  bool          *recurs;  /* [layers] the layer is recurrent */
  /* A [attending,P,G,D,TRI_PAGE], A [attending,P,G,TRI_PAGE,D], owned by the ledger */
  void *k, *v;
  /* f32 [recurrent,Z,Hv,Dk,Dv], A [recurrent,Z,conv-1,Er], owned by the ledger */
  void *state, *tail;
};

/* ---- free numbers ---- */

static tri_status stack_open(stack *s, int64_t all) {
  s->all = all;
  return all ? TRI_ALLOC(s->free, all) : TRI_OK;
}

static void stack_reset(stack *s) {
  s->n_free = s->all;
  for (int64_t i = 0; i < s->all; i++) s->free[i] = (int32_t)(s->all - 1 - i);
}

static int32_t stack_take(stack *s) { return s->n_free ? s->free[--s->n_free] : -1; }

static void stack_give(stack *s, int32_t number) {
  TRI_ASSERT(number >= 0 && number < s->all && s->n_free < s->all);
  s->free[s->n_free++] = number;
}

/* ---- sizes ---- */

static int64_t page_elements(const tri_kv *kv) { return (int64_t)kv->heads.G * kv->heads.D * TRI_PAGE; }

static size_t page_bytes(const tri_kv *kv) { return (size_t)page_elements(kv) * tri_dtype_bytes(kv->dtype); }

static tri_delta_rule rule_of(const tri_model_shape *shape) {
  const tri_delta_shape *d = &shape->delta;

  return (tri_delta_rule){.Hk = d->Hk, .Hv = d->Hv, .Dk = d->Dk, .Dv = d->Dv, .conv = d->conv};
}

/* Returns the bytes of one state in one layer, and of its tail. */
static size_t state_bytes(const tri_delta_rule *r) { return (size_t)tri_delta_state(r) * sizeof(float); }
static size_t tail_bytes(const tri_delta_rule *r, tri_dtype dtype) {
  return (size_t)((r->conv - 1) * tri_delta_width(r)) * tri_dtype_bytes(dtype);
}

size_t tri_kv_state_bytes(const tri_model_shape *shape, tri_dtype dtype) {
  const tri_delta_rule r = rule_of(shape);
  const int            n = tri_recurrent_layers(shape);

  return n ? (size_t)n * (state_bytes(&r) + tail_bytes(&r, dtype)) : 0;
}

/* ---- open and close ---- */

/* Numbers the layers of each kind. */
static tri_status number_layers(tri_kv *kv, const tri_model_shape *shape) {
  kv->layers = shape->L;
  TRI_TRY(TRI_ALLOC(kv->number, shape->L));
  TRI_TRY(TRI_ALLOC(kv->recurs, shape->L));
  for (int layer = 0; layer < shape->L; layer++) {
    kv->recurs[layer] = tri_is_recurrent(shape, layer);
    kv->number[layer] = kv->recurs[layer] ? kv->recurrent++ : kv->attending++;
  }
  return TRI_OK;
}

static tri_status plan(tri_kv *kv, tri_ledger *ledger) {
  const tri_mem   kind = TRI_MEM_DEVICE;
  const tri_phase phase = TRI_PHASE_ROLLOUT;
  const char     *pages = "key/value cache";
  char            states[48], each[TRI_CELL_BYTES];
  size_t          n_page = (size_t)kv->attending * (size_t)kv->pages.all,
         n_state = (size_t)kv->recurrent * (size_t)kv->states.all;

  TRI_TRY(tri_ledger_add(ledger, kind, phase, false, pages, n_page * page_bytes(kv), &kv->k));
  TRI_TRY(tri_ledger_add(ledger, kind, phase, false, pages, n_page * page_bytes(kv), &kv->v));
  if (!n_state) return TRI_OK;
  tri_cell_bytes((int64_t)(kv->recurrent * (state_bytes(&kv->rule) + tail_bytes(&kv->rule, kv->dtype))),
                 each);
  snprintf(states, sizeof states, "%lld state%s of %s", (long long)kv->states.all,
           kv->states.all == 1 ? "" : "s", each);
  TRI_TRY(tri_ledger_add(ledger, kind, phase, false, states, n_state * state_bytes(&kv->rule), &kv->state));
  return tri_ledger_add(ledger, kind, phase, false, states, n_state * tail_bytes(&kv->rule, kv->dtype),
                        &kv->tail);
}

tri_status tri_kv_open(tri_device *d, tri_ledger *ledger, const tri_model_shape *shape, tri_dtype dtype,
                       int64_t pages, int states, tri_kv **out) {
  tri_kv *kv;

  if (pages <= 0 || pages > INT32_MAX / TRI_PAGE)
    TRI_FAIL(TRI_ECONFIG,
             "a key/value cache of %lld pages of %d tokens is too large for this program. Reduce "
             "rollout.max_cached_tokens or rollout.max_response_length",
             (long long)pages, TRI_PAGE);
  TRI_ASSERT((states > 0) == (tri_recurrent_layers(shape) > 0));
  TRI_TRY(TRI_ALLOC(*out, 1));
  kv = *out;
  kv->device = d;
  kv->heads = (tri_heads){shape->H, shape->G, shape->D};
  kv->rule = rule_of(shape);
  kv->dtype = dtype;
  TRI_TRY(number_layers(kv, shape));
  TRI_TRY(stack_open(&kv->pages, pages));
  TRI_TRY(stack_open(&kv->states, states));
  TRI_TRY(TRI_ALLOC(kv->holders, pages));
  TRI_TRY(plan(kv, ledger));
  tri_kv_reset(kv);
  return TRI_OK;
}

void tri_kv_close(tri_kv **kv) {
  if (!*kv) return;
  TRI_FREE((*kv)->pages.free);
  TRI_FREE((*kv)->states.free);
  TRI_FREE((*kv)->holders);
  TRI_FREE((*kv)->number);
  TRI_FREE((*kv)->recurs);
  TRI_FREE(*kv);
}

void tri_kv_reset(tri_kv *kv) {
  stack_reset(&kv->pages);
  stack_reset(&kv->states);
  for (int64_t i = 0; i < kv->pages.all; i++) kv->holders[i] = 0;
}

/* ---- pages ---- */

void tri_kv_layer(const tri_kv *kv, int layer, tri_tensor *k, tri_tensor *v) {
  const int64_t P = kv->pages.all, G = kv->heads.G, D = kv->heads.D;
  const size_t  at = (size_t)(P * kv->number[layer]) * page_bytes(kv);

  TRI_ASSERT(!kv->recurs[layer]);
  *k = (tri_tensor){(char *)kv->k + at, kv->dtype, 4, {P, G, D, TRI_PAGE}};
  *v = (tri_tensor){(char *)kv->v + at, kv->dtype, 4, {P, G, TRI_PAGE, D}};
}

int32_t tri_kv_take(tri_kv *kv) {
  int32_t page = stack_take(&kv->pages);

  if (page >= 0) kv->holders[page] = 1;
  return page;
}

void tri_kv_share(tri_kv *kv, int32_t page) {
  TRI_ASSERT(kv->holders[page] > 0);
  kv->holders[page]++;
}

void tri_kv_drop(tri_kv *kv, int32_t page) {
  TRI_ASSERT(kv->holders[page] > 0);
  if (--kv->holders[page] == 0) stack_give(&kv->pages, page);
}

int64_t tri_kv_free(const tri_kv *kv) { return kv->pages.n_free; }

bool tri_kv_is_shared(const tri_kv *kv, int32_t page) { return kv->holders[page] > 1; }

/* Copies place `from` of a layer's tensor to place `to`, each of so many bytes. */
static tri_status copy_place(const tri_kv *kv, const tri_tensor *x, int32_t to, int32_t from, size_t bytes,
                             tri_stream *s) {
  char *base = x->data;

  return kv->device->ops->copy(s, base + bytes * (size_t)to, base + bytes * (size_t)from, bytes);
}

tri_status tri_kv_copy(tri_kv *kv, int32_t to, int32_t from, tri_stream *s) {
  for (int layer = 0; layer < kv->layers; layer++) {
    tri_tensor k, v;
    if (kv->recurs[layer]) continue;
    tri_kv_layer(kv, layer, &k, &v);
    TRI_TRY(copy_place(kv, &k, to, from, page_bytes(kv), s));
    TRI_TRY(copy_place(kv, &v, to, from, page_bytes(kv), s));
  }
  return TRI_OK;
}

/* ---- states ---- */

void tri_kv_states(const tri_kv *kv, int layer, tri_tensor *state, tri_tensor *tail) {
  const tri_delta_rule *r = &kv->rule;
  const int64_t         Z = kv->states.all;
  const size_t          at = (size_t)(Z * kv->number[layer]);

  TRI_ASSERT(kv->recurs[layer]);
  *state = (tri_tensor){(char *)kv->state + at * state_bytes(r), TRI_F32, 4, {Z, r->Hv, r->Dk, r->Dv}};
  *tail = (tri_tensor){
      (char *)kv->tail + at * tail_bytes(r, kv->dtype), kv->dtype, 3, {Z, r->conv - 1, tri_delta_width(r)}};
}

int32_t tri_kv_take_state(tri_kv *kv) { return stack_take(&kv->states); }

void tri_kv_drop_state(tri_kv *kv, int32_t state) { stack_give(&kv->states, state); }

int64_t tri_kv_free_states(const tri_kv *kv) { return kv->states.n_free; }

tri_status tri_kv_copy_state(tri_kv *kv, int32_t to, int32_t from, tri_stream *s) {
  for (int layer = 0; layer < kv->layers; layer++) {
    tri_tensor state, tail;
    if (!kv->recurs[layer]) continue;
    tri_kv_states(kv, layer, &state, &tail);
    TRI_TRY(copy_place(kv, &state, to, from, state_bytes(&kv->rule), s));
    TRI_TRY(copy_place(kv, &tail, to, from, tail_bytes(&kv->rule, kv->dtype), s));
  }
  return TRI_OK;
}
