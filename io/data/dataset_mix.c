/* dataset_mix.c - draws files by weights: keyed random numbers choose the file of each position. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/host_memory.h"
#include "base/rng.h"
#include "dataset_parts.h"

enum { BLOCK = 1024 }; /* chosen: positions drawn at once; a step needs only a few blocks */

/* The BLOCK positions from number * BLOCK on. */
typedef struct block {
  int64_t  number; /* -1 before the first use */
  int      file[BLOCK];
  int64_t  before[BLOCK]; /* earlier positions of that file */
  int64_t *after;         /* [n] positions of each file up to the block's end */
} block;

struct tri_data_mix {
  int      n;
  double  *up_to; /* [n] cumulative share of the files up to this one, in (0, 1) */
  uint64_t seed;
  block    kept[2]; /* block b is in b % 2 */
};

tri_status tri_mix_open(const double *weight, int n, tri_data_mix **out) {
  tri_status    st = TRI_OK;
  tri_data_mix *m = NULL;
  double        most = 0, sum = 0, so_far = 0;

  TRI_TRY_DONE(TRI_ALLOC(m, 1));
  TRI_TRY_DONE(TRI_ALLOC(m->up_to, n));
  m->n = n;
  for (int i = 0; i < n; i++) most = weight[i] > most ? weight[i] : most;
  for (int i = 0; i < n; i++) sum += weight[i] / most; /* stays below the largest double */
  for (int i = 0; i < n; i++) m->up_to[i] = (so_far += weight[i] / most) / sum;
  for (int i = 0; i < 2; i++) {
    m->kept[i].number = -1;
    TRI_TRY_DONE(TRI_ALLOC(m->kept[i].after, n));
  }
done:
  if (st != TRI_OK) tri_mix_close(&m);
  *out = m;
  return st;
}

void tri_mix_close(tri_data_mix **m) {
  if (!*m) return;
  for (int i = 0; i < 2; i++) TRI_FREE((*m)->kept[i].after);
  TRI_FREE((*m)->up_to);
  TRI_FREE(*m);
}

/* Returns the file of a position, which depends only on seed, weights and position. */
static int file_at(const tri_data_mix *m, int64_t position) {
  uint32_t bits[4];
  double   u;
  int      i = 0;

  tri_rng_bits(tri_rng_make_key(m->seed, TRI_RNG_MIX), 0, (uint64_t)position, bits);
  u = ((double)((uint64_t)bits[0] << 21 | bits[1] >> 11) + 0.5) * 0x1p-53;
  while (i < m->n - 1 && u >= m->up_to[i]) i++;
  return i;
}

/* Draws block `number`. Except for block 0, the other kept block must be the one before it. */
static void draw(tri_data_mix *m, int64_t number) {
  block       *b = &m->kept[number % 2];
  const block *last = &m->kept[(number + 1) % 2];

  for (int i = 0; i < m->n; i++) b->after[i] = number ? last->after[i] : 0;
  for (int k = 0; k < BLOCK; k++) {
    b->file[k] = file_at(m, number * BLOCK + k);
    b->before[k] = b->after[b->file[k]]++;
  }
  b->number = number;
}

void tri_mix_draw(tri_data_mix *m, uint64_t seed, int64_t position, int *file, int64_t *before) {
  int64_t number = position / BLOCK;
  block  *b = &m->kept[number % 2];

  if (seed != m->seed) m->kept[0].number = m->kept[1].number = -1;
  m->seed = seed;
  if (b->number != number && number && m->kept[(number + 1) % 2].number != number - 1)
    for (int64_t i = 0; i < number; i++) draw(m, i); /* as after a resume, 20 ns a position */
  if (b->number != number) draw(m, number);
  *file = b->file[position % BLOCK];
  *before = b->before[position % BLOCK];
}
