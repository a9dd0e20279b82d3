/* dataset_order.c - hashes all examples of a dataset, and orders those of an epoch. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/hash.h"
#include "base/host_memory.h"
#include "base/rng.h"
#include "dataset_parts.h"

/* Hashes the parts that only pairs and labelled examples have. */
static uint64_t hash_preference(const tri_example *e, uint64_t h) {
  int64_t n_rejected = e->n_rejected;

  h = tri_hash64(&n_rejected, sizeof n_rejected, h);
  if (e->n_rejected) h = tri_hash64(e->rejected, (size_t)e->n_rejected * sizeof *e->rejected, h);
  return tri_hash64(&e->value, sizeof e->value, h);
}

/* Hashes the parts that only conversations have, so that the hash of other data stays the same. */
static uint64_t hash_skip(const tri_example *e, uint64_t h) {
  if (e->skip) h = tri_hash64(e->skip, (size_t)e->n_token, h);
  return e->rejected_skip ? tri_hash64(e->rejected_skip, (size_t)e->n_rejected, h) : h;
}

int64_t tri_dataset_hash(const tri_dataset *d) {
  uint64_t h = 0;

  for (int64_t i = 0; i < d->n; i++) {
    const tri_example *e = &d->example[i];
    int64_t            head[4] = {e->id, e->n_token, e->n_prompt, (int64_t)e->answer_bytes};
    h = tri_hash64(head, sizeof head, h);
    h = tri_hash64(e->token, (size_t)e->n_token * sizeof *e->token, h);
    h = tri_hash64(e->answer ? e->answer : "", e->answer ? e->answer_bytes : 0, h);
    if (e->fields) h = tri_hash64(e->fields, e->fields_bytes, h); /* a reward reads them */
    if (d->kind == TRI_DATA_PAIRS || d->kind == TRI_DATA_LABELLED) h = hash_preference(e, h);
    h = hash_skip(e, h);
    if (d->mix) h = tri_hash64(&e->file, sizeof e->file, h);
  }
  return (int64_t)h;
}

/* Shuffles by Fisher and Yates (Durstenfeld, CACM 7, 1964) with numbers keyed by (seed, epoch, part, place).
 * The remainder of 64 random bits favours no example by more than n / 2^64. */
static void make_order(tri_dataset *d, int k, uint64_t seed, int64_t epoch) {
  tri_rng_key    key = tri_rng_make_key(seed, TRI_RNG_SHUFFLE);
  tri_data_part *p = &d->part[k];
  int64_t       *order = d->order + p->first;

  for (int64_t i = 0; i < p->n; i++) order[i] = p->first + i;
  for (int64_t i = p->n - 1; i > 0; i--) {
    uint32_t bits[4];
    int64_t  j, keep = order[i];
    tri_rng_bits(key, (uint64_t)epoch, (uint64_t)k << 48 | (uint64_t)i, bits);
    j = (int64_t)(((uint64_t)bits[0] << 32 | bits[1]) % (uint64_t)(i + 1));
    order[i] = order[j];
    order[j] = keep;
  }
  p->seed = seed;
  p->epoch = epoch;
  p->has_order = true;
}

int64_t tri_dataset_at(tri_dataset *d, uint64_t seed, bool shuffle, int64_t position) {
  int            k = 0;
  tri_data_part *p = d->part;
  int64_t        epoch;

  TRI_ASSERT(position >= 0);
  if (d->mix) tri_mix_draw(d->mix, seed, position, &k, &position);
  p += k;
  epoch = position / p->n;
  if (!shuffle) return p->first + position % p->n;
  if (!p->has_order || p->seed != seed || p->epoch != epoch) make_order(d, k, seed, epoch);
  return d->order[p->first + position % p->n];
}

tri_status tri_dataset_weigh(tri_dataset *d, const char *const *file, const double *weight, int n_file) {
  TRI_FREE(d->part);
  TRI_TRY(TRI_ALLOC(d->part, n_file));
  d->n_part = n_file;
  for (int64_t i = 0; i < d->n; i++) {
    tri_data_part *p = &d->part[d->example[i].file];
    if (!p->n++) p->first = i;
  }
  for (int k = 0; k < n_file; k++)
    if (!d->part[k].n) TRI_FAIL(TRI_EINPUT, "%s: has a weight, but no lines to draw", file[k]);
  return tri_mix_open(weight, n_file, &d->mix);
}
