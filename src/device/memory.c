/* memory.c - the ledger plans named allocations, then takes all memory at once at the start. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include "base/columns.h"
#include "base/host_memory.h"

#include <stdio.h>
#include <string.h>

enum { ALIGN = 256, KINDS = 3 }; /* 256 is the widest vector and cuBLASLt's preferred alignment */

typedef struct entry {
  char            name[48];
  tri_mem         kind;
  tri_phase       phase;
  bool            state, gathered;
  int             member; /* 0 for none */
  tri_ledger_case of;
  size_t          bytes; /* rounded up to ALIGN */
  void          **where;
} entry;

struct tri_ledger {
  entry          *e;
  int64_t         cap;
  int             n;
  tri_ledger_case of;       /* case of the next entries */
  bool            gathered; /* likewise, and the next */
  int             member;
  tri_device     *device; /* borrowed; NULL until taken */
  void           *block[KINDS];
  size_t          block_bytes[KINDS];
};

tri_status tri_ledger_open(tri_ledger **out) {
  TRI_TRY(TRI_ALLOC(*out, 1));
  return TRI_OK;
}

void tri_ledger_close(tri_ledger **l) {
  if (!*l) return;
  for (int k = 0; k < KINDS; k++)
    if ((*l)->block[k]) (*l)->device->ops->free((*l)->device, (tri_mem)k, &(*l)->block[k]);
  TRI_FREE((*l)->e);
  TRI_FREE(*l);
}

tri_status tri_ledger_add(tri_ledger *l, tri_mem kind, tri_phase phase, bool state, const char *name,
                          size_t bytes, void **where) {
  entry *e;

  TRI_ASSERT(!l->device);
  *where = NULL;
  if (bytes > (size_t)1 << 50)
    TRI_FAIL(TRI_ECONFIG, "memory plan: %s asks for %zu bytes, over the limit of 2^50", name, bytes);
  TRI_TRY(TRI_GROW(l->e, l->cap, l->n + 1));
  e = &l->e[l->n++];
  snprintf(e->name, sizeof e->name, "%s", name);
  e->kind = kind;
  e->phase = phase;
  e->state = state;
  e->of = l->of;
  e->gathered = l->gathered;
  e->member = l->member;
  e->bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  e->where = where;
  return TRI_OK;
}

void tri_ledger_set_case(tri_ledger *l, tri_ledger_case c) { l->of = c; }

void tri_ledger_set_gathered(tri_ledger *l, bool on) { l->gathered = on; }

void tri_ledger_set_member(tri_ledger *l, int member) {
  TRI_ASSERT(member >= 0 && member < TRI_LEDGER_MEMBERS);
  l->member = member;
}

/* True if `other` is of a member too and has the kind, phase and place of gathers of `e`, in a plan without
 * the entries of case `but`. */
static bool beside(const entry *e, const entry *other, tri_ledger_case but) {
  return other->of != but && other->kind == e->kind && other->phase == e->phase &&
         other->gathered == e->gathered && other->member;
}

/* Returns the bytes of every member beside e, and the largest member, the first of several. */
static int largest_beside(const tri_ledger *l, tri_ledger_case but, const entry *e,
                          size_t bytes[TRI_LEDGER_MEMBERS]) {
  int most = 1;

  memset(bytes, 0, TRI_LEDGER_MEMBERS * sizeof *bytes);
  for (int i = 0; i < l->n; i++)
    if (beside(e, &l->e[i], but)) bytes[l->e[i].member] += l->e[i].bytes;
  for (int m = 2; m < TRI_LEDGER_MEMBERS; m++)
    if (bytes[m] > bytes[most]) most = m;
  return most;
}

/* True if the entry takes memory of its own. It lies over others if its member is not the largest. */
static bool counts(const tri_ledger *l, tri_ledger_case but, const entry *e) {
  size_t bytes[TRI_LEDGER_MEMBERS];

  if (!e->bytes || e->of == but) return false;
  return !e->member || largest_beside(l, but, e, bytes) == e->member;
}

/* True if the entry lies in memory that other members use too. */
static bool is_shared(const tri_ledger *l, tri_ledger_case but, const entry *e) {
  size_t bytes[TRI_LEDGER_MEMBERS];
  int    users = 0;

  if (!e->member) return false;
  (void)largest_beside(l, but, e, bytes);
  for (int m = 1; m < TRI_LEDGER_MEMBERS; m++) users += bytes[m] > 0;
  return users > 1;
}

/* Sums one kind, or all kinds if kind < 0, without the entries of case `but`. */
static size_t sum_but(const tri_ledger *l, tri_ledger_case but, int kind, tri_phase phase) {
  size_t bytes = 0;

  for (int i = 0; i < l->n; i++)
    if ((kind < 0 || (int)l->e[i].kind == kind) && l->e[i].phase == phase && counts(l, but, &l->e[i]))
      bytes += l->e[i].bytes;
  return bytes;
}

static size_t peak_but(const tri_ledger *l, tri_ledger_case but, int kind) {
  size_t rollout = sum_but(l, but, kind, TRI_PHASE_ROLLOUT), learn = sum_but(l, but, kind, TRI_PHASE_LEARN);
  return sum_but(l, but, kind, TRI_PHASE_ALWAYS) + (rollout > learn ? rollout : learn);
}

static size_t sum_of(const tri_ledger *l, int kind, tri_phase phase) {
  return sum_but(l, TRI_CASE_RESIDENT, kind, phase);
}

static size_t peak_of(const tri_ledger *l, int kind) { return peak_but(l, TRI_CASE_RESIDENT, kind); }

static size_t peak_of_all(const tri_ledger *l) {
  size_t bytes = 0;

  for (int k = 0; k < KINDS; k++) bytes += peak_of(l, k);
  return bytes;
}

/* Returns the entry's offset from the start of all members. *first is true if no entry beside it comes
 * before. */
static size_t offset_in_member(const tri_ledger *l, const entry *e, bool *first) {
  size_t at = 0;

  *first = true;
  for (const entry *b = l->e; b < e; b++) {
    if (!b->bytes || !beside(e, b, TRI_CASE_RESIDENT)) continue;
    *first = false;
    if (b->member == e->member) at += b->bytes;
  }
  return at;
}

/* Places one entry. at[phase] is the end of what is placed in its phase, start[phase] where its members
 * begin. */
static void place_one(tri_ledger *l, entry *e, char *base, size_t at[4], size_t start[4]) {
  size_t bytes[TRI_LEDGER_MEMBERS], offset;
  bool   first;

  if (!e->member) {
    *e->where = base + at[e->phase];
    at[e->phase] += e->bytes;
    return;
  }
  offset = offset_in_member(l, e, &first);
  if (first) {
    start[e->phase] = at[e->phase];
    at[e->phase] += bytes[largest_beside(l, TRI_CASE_RESIDENT, e, bytes)];
  }
  *e->where = base + start[e->phase] + offset;
}

/* Places each entry of one kind and returns the end of the highest one. Entries keep their order, except for
 * gathers. They come last among those always needed and first in each phase, so one contiguous piece holds
 * all gathers. Members begin where their first entry would lie. */
static size_t place(tri_ledger *l, int kind, char *base) {
  size_t at[4] = {0}, start[4], always = sum_of(l, kind, TRI_PHASE_ALWAYS), top = 0;

  at[TRI_PHASE_ROLLOUT] = at[TRI_PHASE_LEARN] = always;
  for (int i = 0; i < 2 * l->n; i++) {
    entry *e = &l->e[i % l->n];
    bool   first = e->gathered != (e->phase == TRI_PHASE_ALWAYS);
    if ((int)e->kind != kind || !e->bytes || e->of == TRI_CASE_RESIDENT || first != (i < l->n)) continue;
    place_one(l, e, base, at, start);
    if (at[e->phase] > top) top = at[e->phase];
  }
  return top;
}

/* One kind of memory, of a GPU or of the host. */
typedef struct pool {
  const tri_device_ops *ops; /* its owner, with d */
  tri_device           *d;
  size_t                planned, beside;
  const char           *what, *whose; /* " on the GPU" or empty; the user of `beside` */
  const char           *limit;        /* a limit below the machine's memory, or NULL */
} pool;

static tri_status check_one(const tri_ledger *l, const pool *r, int ranks) {
  size_t   bytes_free, bytes_total;
  tri_text table = {0}, head = {0};
  char     planned[TRI_CELL_BYTES], beside[TRI_CELL_BYTES], left[TRI_CELL_BYTES];

  TRI_TRY(r->ops->mem_info(r->d, &bytes_free, &bytes_total));
  if (r->planned + r->beside <= bytes_free / (size_t)ranks) return TRI_OK;
  TRI_TRY(tri_ledger_print(l, &table));
  tri_cell_memory(r->planned, planned);
  tri_cell_memory(r->beside, beside);
  tri_cell_memory(bytes_free, left);
  TRI_TRY(tri_text_printf(&head, "the memory plan does not fit: %s%s", planned, r->what));
  if (r->beside) TRI_TRY(tri_text_printf(&head, " and %s for %s", beside, r->whose));
  TRI_TRY(tri_text_printf(&head, " for each of %d rank%s here, but only %s are free%s%s", ranks,
                          ranks == 1 ? "" : "s", left, r->limit ? " under " : "", r->limit ? r->limit : ""));
  tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG, "%s\n", head.data);
  tri_text_free(&head);
  TRI_TRY(
      tri_text_printf(&table,
                      "trireme plan DECK computes settings that fit.\n"
                      "To make it smaller by hand, use fewer tokens at once (train.max_tokens_per_gpu or "
                      "train.micro_batch_size), model.recompute=layer, a smaller rollout.max_cached_tokens, "
                      "shard.plan=zero3, lora.rank, %s%sor more nodes",
                      r->d && tri_device_is_gpu(r->d) ? "shard.offload=all, " : "",
                      r->limit ? "a higher limit (Slurm: --mem), " : ""));
  tri_error_lines(table.data);
  tri_text_free(&table);
  return TRI_ECONFIG;
}

tri_status tri_ledger_check(const tri_ledger *l, tri_device *d, tri_ledger_beside beside,
                            const char *host_limit, int sharers, int machine_ranks) {
  size_t                on_device = peak_of(l, TRI_MEM_DEVICE);
  const tri_device_ops *host_ops = tri_device_find(tri_device_host());
  const pool            gpu = {d->ops, d, on_device, beside.device, " on the GPU", "its libraries", NULL};
  pool host = {d->ops, d, peak_of_all(l), beside.host, "", "libraries and buffers beside it", host_limit};

  if (!tri_device_is_gpu(d)) return check_one(l, &host, sharers);
  TRI_TRY(check_one(l, &gpu, sharers));
  TRI_ASSERT(host_ops);
  host = (pool){host_ops,   NULL,      peak_of_all(l) - on_device, beside.host, " in host memory",
                host.whose, host_limit};
  return check_one(l, &host, machine_ranks);
}

tri_status tri_ledger_take(tri_ledger *l, tri_device *d) {
  l->device = d;
  for (int k = 0; k < KINDS; k++) {
    size_t bytes = peak_of(l, k);
    if (!bytes) continue;
    TRI_TRY(d->ops->alloc(d, (tri_mem)k, bytes, &l->block[k]));
    l->block_bytes[k] = place(l, k, l->block[k]);
    TRI_ASSERT(l->block_bytes[k] <= bytes);
  }
  return TRI_OK;
}

void tri_ledger_block(const tri_ledger *l, void **base, size_t *bytes) {
  *base = l->block[TRI_MEM_DEVICE];
  *bytes = l->block_bytes[TRI_MEM_DEVICE];
}

void tri_ledger_gathered(const tri_ledger *l, void **base, size_t *bytes) {
  size_t each[4] = {0}, always = sum_of(l, TRI_MEM_DEVICE, TRI_PHASE_ALWAYS), later;

  for (int i = 0; i < l->n; i++)
    if (l->e[i].gathered && l->e[i].kind == TRI_MEM_DEVICE && counts(l, TRI_CASE_RESIDENT, &l->e[i]))
      each[l->e[i].phase] += l->e[i].bytes;
  later = each[TRI_PHASE_LEARN] > each[TRI_PHASE_ROLLOUT] ? each[TRI_PHASE_LEARN] : each[TRI_PHASE_ROLLOUT];
  *bytes = each[TRI_PHASE_ALWAYS] + later;
  *base = *bytes ? (char *)l->block[TRI_MEM_DEVICE] + (always - each[TRI_PHASE_ALWAYS]) : NULL;
}

/* FNV-1a over all that determines the offset of a buffer. */
uint64_t tri_ledger_layout(const tri_ledger *l) {
  uint64_t h = 0xcbf29ce484222325u;

  for (int i = 0; i < l->n; i++) {
    if (l->e[i].kind != TRI_MEM_DEVICE || !l->e[i].bytes || l->e[i].of == TRI_CASE_RESIDENT) continue;
    h = (h ^ (uint64_t)(l->e[i].phase | l->e[i].gathered << 2 | l->e[i].member << 3)) * 0x100000001b3u;
    for (int k = 0; k < 64; k += 8) h = (h ^ ((uint64_t)l->e[i].bytes >> k & 0xff)) * 0x100000001b3u;
  }
  return h;
}

tri_ledger_sum tri_ledger_total(const tri_ledger *l) {
  tri_ledger_sum s = {0};

  s.planned = (int64_t)peak_of_all(l);
  s.device = (int64_t)peak_of(l, TRI_MEM_DEVICE);
  s.pinned = (int64_t)peak_of(l, TRI_MEM_PINNED);
  s.resident = (int64_t)peak_but(l, TRI_CASE_OFFLOADED, TRI_MEM_DEVICE);
  for (int k = 0; k < KINDS; k++) s.used += (int64_t)l->block_bytes[k];
  s.always = (int64_t)sum_of(l, -1, TRI_PHASE_ALWAYS);
  s.rollout = s.always + (int64_t)sum_of(l, -1, TRI_PHASE_ROLLOUT);
  s.learn = s.always + (int64_t)sum_of(l, -1, TRI_PHASE_LEARN);
  for (int i = 0; i < l->n; i++) {
    const entry *e = &l->e[i];
    bool         own = counts(l, TRI_CASE_RESIDENT, e);
    if (e->state && own) s.state += (int64_t)e->bytes;
    if (!own && e->of != TRI_CASE_RESIDENT) s.overlaid += (int64_t)e->bytes;
  }
  return s;
}

tri_status tri_ledger_rows(const tri_ledger *l, tri_ledger_row **out, int *n) {
  *n = 0;
  TRI_TRY(TRI_ALLOC(*out, l->n + 1));
  for (int i = 0; i < l->n; i++) {
    const entry *e = &l->e[i];
    int          k = 0;
    if (!counts(l, TRI_CASE_RESIDENT, e)) continue;
    while (k < *n &&
           ((*out)[k].kind != e->kind || (*out)[k].phase != e->phase || strcmp((*out)[k].name, e->name)))
      k++;
    if (k == *n) (*out)[(*n)++] = (tri_ledger_row){e->name, e->kind, e->phase, 0, false};
    (*out)[k].bytes += (int64_t)e->bytes;
    (*out)[k].shared |= is_shared(l, TRI_CASE_RESIDENT, e);
  }
  return TRI_OK;
}

static bool named_before(const tri_ledger *l, int i) {
  for (int j = 0; j < i; j++)
    if (l->e[j].of != TRI_CASE_RESIDENT && !strcmp(l->e[j].name, l->e[i].name)) return true;
  return false;
}

tri_status tri_ledger_print(const tri_ledger *l, tri_text *out) {
  tri_ledger_sum s = tri_ledger_total(l);

  TRI_TRY(tri_text_printf(out, "memory per rank, MiB                rollout      learn\n"));
  for (int i = 0; i < l->n; i++) {
    size_t phase[4] = {0};
    char   name[sizeof l->e[i].name + 2];
    bool   shared = false;
    if (l->e[i].of == TRI_CASE_RESIDENT || named_before(l, i)) continue;
    for (int j = i; j < l->n; j++)
      if (!strcmp(l->e[j].name, l->e[i].name) && counts(l, TRI_CASE_RESIDENT, &l->e[j])) {
        phase[l->e[j].phase] += l->e[j].bytes;
        shared |= is_shared(l, TRI_CASE_RESIDENT, &l->e[j]);
      }
    if (!phase[1] && !phase[2] && !phase[3]) continue;
    snprintf(name, sizeof name, "%s%s", l->e[i].name, shared ? " *" : "");
    TRI_TRY(tri_text_printf(out, "  %-30s %10.3f %10.3f\n", name, (double)(phase[1] + phase[3]) / 0x1p20,
                            (double)(phase[2] + phase[3]) / 0x1p20));
  }
  TRI_TRY(tri_text_printf(out, "  %-30s %10.3f %10.3f\n", "total", (double)s.rollout / 0x1p20,
                          (double)s.learn / 0x1p20));
  TRI_TRY(tri_text_printf(out, "  planned %lld bytes, of them training state %lld, on the device %lld",
                          (long long)s.planned, (long long)s.state, (long long)s.device));
  if (s.resident != s.device)
    TRI_TRY(tri_text_printf(out, " (%lld without shard.offload)", (long long)s.resident));
  return tri_text_printf(out, "\n%s", s.overlaid ? TRI_LEDGER_TURNS "\n" : "");
}
