/* reward_means.c - means of extra numbers in replies, on this rank and then over all ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/notice.h"
#include "reward_set.h"

#include <string.h>

/* Returns the entry of a name among the means, and makes it if needed. The first names in sorted order are
 * kept, so that the selection does not depend on the order of arrival. Returns NULL for a name behind all
 * kept ones. */
static tri_reward_mean *find_place(tri_reward_means *m, const char *name) {
  int i = m->n;

  while (i > 0 && strcmp(m->at[i - 1].name, name) > 0) i--;
  if (i > 0 && !strcmp(m->at[i - 1].name, name)) return &m->at[i - 1];
  if (m->n == TRI_EXTRAS_MOST) {
    m->has_more = true;
    if (i == m->n) return NULL;
    m->n--;
  }
  memmove(&m->at[i + 1], &m->at[i], (size_t)(m->n - i) * sizeof *m->at);
  m->n++;
  m->at[i] = (tri_reward_mean){.sum = 0};
  memcpy(m->at[i].name, name, strlen(name) + 1);
  return &m->at[i];
}

/* Adds x with its rounding error (Knuth, The Art of Computer Programming 2, 4.2.2, theorem B). The ranks take
 * prompts by need, so the order of the numbers may differ between runs. A plain sum would then differ in its
 * last bits. */
static void add(tri_reward_mean *to, double x) {
  double sum = to->sum + x, part = sum - to->sum;

  to->rest += (to->sum - (sum - part)) + (x - part);
  to->sum = sum;
}

void tri_reward_means_add(tri_reward_means *m, const tri_extras *x) {
  for (int i = 0; i < x->n; i++) {
    tri_reward_mean *to = find_place(m, x->at[i].name);
    if (!to) continue;
    add(to, x->at[i].value);
    to->n++;
  }
}

/* Bytes of the entries in use. */
static size_t used_bytes(const tri_reward_means *m) {
  return m->n ? offsetof(tri_reward_means, at) + (size_t)m->n * sizeof *m->at : 0;
}

static void add_all(tri_reward_means *m, const tri_reward_means *of) {
  m->has_more |= of->has_more;
  for (int i = 0; i < of->n; i++) {
    tri_reward_mean *to = find_place(m, of->at[i].name);
    if (!to) continue;
    add(to, of->at[i].sum);
    to->rest += of->at[i].rest;
    to->n += of->at[i].n;
  }
}

/* Collective over world. Gathers the means of every rank and joins them in rank order. */
static tri_status join(tri_reward_means *m, tri_comm *world) {
  char            *all = NULL;
  size_t          *counts = NULL, at = 0;
  tri_reward_means one;
  tri_status       st = TRI_OK;

  TRI_TRY_DONE(tri_agree(world, TRI_ALLOC(counts, world->size)));
  TRI_TRY_DONE(tri_host_gather_all(world, m, used_bytes(m), (void **)&all, counts));
  *m = (tri_reward_means){.n = 0};
  for (int rank = 0; rank < world->size; at += counts[rank++]) {
    if (!counts[rank]) continue;
    TRI_ASSERT(counts[rank] <= sizeof one);
    memcpy(&one, all + at, counts[rank]);
    add_all(m, &one);
  }
done:
  TRI_FREE(all);
  TRI_FREE(counts);
  return st;
}

tri_status tri_reward_set_extras(tri_reward_set *s, int i, tri_comm *world,
                                 tri_reward_mean mean[TRI_EXTRAS_MOST], int *n) {
  tri_reward_row  *row = &s->row[i];
  tri_reward_means m = row->means;

  *n = 0;
  row->means = (tri_reward_means){.n = 0};
  if (!row->kind->collect) return TRI_OK;
  if (world && world->size > 1) TRI_TRY(join(&m, world));
  if (m.has_more && !row->warned_more && (!world || world->rank == 0))
    tri_warn("reward_fields",
             "reward %s: its replies have over %d extra numbers in all. The first, sorted by name, become "
             "metrics (logged once)",
             row->name, TRI_EXTRAS_MOST);
  row->warned_more |= m.has_more;
  memcpy(mean, m.at, (size_t)m.n * sizeof *mean);
  for (int k = 0; k < m.n; k++) {
    mean[k].sum += mean[k].rest;
    mean[k].rest = 0;
  }
  *n = m.n;
  return TRI_OK;
}
