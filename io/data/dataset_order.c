/* dataset_order.c - the examples of a dataset as a whole: their hash, and the order of an epoch. */
#include "base/hash.h"
#include "base/rng.h"
#include "dataset_parts.h"

/* What examples of other kinds do not have. */
static uint64_t hash_preference(const tri_example *e, uint64_t h) {
  int64_t n_rejected = e->n_rejected;

  h = tri_hash64(&n_rejected, sizeof n_rejected, h);
  if (e->n_rejected) h = tri_hash64(e->rejected, (size_t)e->n_rejected * sizeof *e->rejected, h);
  return tri_hash64(&e->value, sizeof e->value, h);
}

int64_t tri_dataset_hash(const tri_dataset *d) {
  uint64_t h = 0;

  for (int64_t i = 0; i < d->n; i++) {
    const tri_example *e = &d->example[i];
    int64_t            head[4] = {e->id, e->n_token, e->n_prompt, (int64_t)e->answer_bytes};
    h = tri_hash64(head, sizeof head, h);
    h = tri_hash64(e->token, (size_t)e->n_token * sizeof *e->token, h);
    h = tri_hash64(e->answer ? e->answer : "", e->answer ? e->answer_bytes : 0, h);
    if (d->kind == TRI_DATA_PAIRS || d->kind == TRI_DATA_LABELLED) h = hash_preference(e, h);
  }
  return (int64_t)h;
}

/* Fisher and Yates's shuffle (Durstenfeld, CACM 7, 1964) with numbers keyed by (seed, epoch, place). The
 * remainder of 64 random bits favours no example by more than n / 2^64. */
static void make_order(tri_dataset *d, uint64_t seed, int64_t epoch) {
  tri_rng_key key = tri_rng_make_key(seed, TRI_RNG_SHUFFLE);

  for (int64_t i = 0; i < d->n; i++) d->order[i] = i;
  for (int64_t i = d->n - 1; i > 0; i--) {
    uint32_t bits[4];
    int64_t  j, keep = d->order[i];
    tri_rng_bits(key, (uint64_t)epoch, (uint64_t)i, bits);
    j = (int64_t)(((uint64_t)bits[0] << 32 | bits[1]) % (uint64_t)(i + 1));
    d->order[i] = d->order[j];
    d->order[j] = keep;
  }
  d->order_seed = seed;
  d->order_epoch = epoch;
  d->has_order = true;
}

int64_t tri_dataset_at(tri_dataset *d, uint64_t seed, bool shuffle, int64_t position) {
  int64_t epoch = position / d->n;

  TRI_ASSERT(position >= 0);
  if (!shuffle) return position % d->n;
  if (!d->has_order || d->order_seed != seed || d->order_epoch != epoch) make_order(d, seed, epoch);
  return d->order[position % d->n];
}
