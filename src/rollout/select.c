/* select.c - builds a step of groups whose answers have different rewards. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "select.h"

#include "arrays.h"

#include <math.h>
#include <string.h>

/* True if rewards in group g differ. An answer without a reward makes no difference. */
static bool differs(const tri_rollout *r, int g) {
  float first = NAN;

  for (int q = g * r->group; q < (g + 1) * r->group; q++) {
    if (isnan(first)) first = r->reward[q];
    if (r->reward[q] != first && !isnan(r->reward[q])) return true;
  }
  return false;
}

void tri_rollout_drop(tri_rollout *r, int least, bool baselines) {
  for (int g = 0; r->group && g < r->n_seq / r->group; g++) {
    int first = g * r->group, left = 0;
    for (int q = first; q < first + r->group; q++)
      left += !isnan(r->reward[q]) && !(baselines && isnan(r->baseline[q]));
    for (int q = first; q < first + r->group; q++)
      if ((left < least || isnan(r->reward[q]) || (baselines && isnan(r->baseline[q]))) &&
          r->masked[q] != TRI_FILLER)
        r->masked[q] = TRI_DROPPED;
  }
}

/* Extends the rollout within its store by more sequences, initialized as tri_rollout_make does. */
static tri_status grow(tri_rollout *r, int n_seq, int64_t n_tok) {
  TRI_TRY(tri_array_check_space(r, r->n_seq + n_seq, r->n_tok + n_tok, r->n_reward));
  for (int k = 0; k < TRI_ARRAYS; k++) {
    char  *p = tri_array_get(r, k);
    size_t width = tri_array_width(k, r->n_reward), before = tri_array_rows(k, r->n_seq, r->n_tok) * width;
    if (p) memset(p + before, 0, tri_array_rows(k, n_seq, n_tok) * width);
  }
  for (int q = r->n_seq; q < r->n_seq + n_seq; q++) r->reward[q] = NAN;
  for (int64_t i = r->n_tok; i < r->n_tok + n_tok; i++) r->old_logp[i] = r->ref_logp[i] = NAN;
  r->n_seq += n_seq;
  r->n_tok += n_tok;
  return TRI_OK;
}

/* Copies sequence q of `from` to sequence `at`, for which there is space, at its own place of the step. */
static void copy_sequence(const tri_rollout *from, int q, tri_rollout *to, int at) {
  int64_t n = from->start[q + 1] - from->start[q];

  to->start[at + 1] = to->start[at] + n;
  for (int k = 0; k < TRI_ARRAYS; k++) {
    if (!tri_array[k].sent) continue;
    bool        tokens = tri_array[k].per == TRI_PER_TOKEN;
    size_t      width = tri_array_width(k, to->n_reward), bytes = (tokens ? (size_t)n : 1) * width;
    char       *p = tri_array_get(to, k);
    const char *x = tri_array_get(from, k);
    if (bytes)
      memcpy(p + (size_t)(tokens ? to->start[at] : at) * width,
             x + (size_t)(tokens ? from->start[q] : q) * width, bytes);
  }
  to->place[at] = at / to->group;
}

static tri_status append(const tri_rollout *from, int g, tri_rollout *to) {
  int at = to->n_seq, first = g * from->group;

  TRI_TRY(grow(to, from->group, from->start[first + from->group] - from->start[first]));
  for (int i = 0; i < from->group; i++) copy_sequence(from, first + i, to, at + i);
  return TRI_OK;
}

/* Makes an empty step for such answers, if there is none yet. */
static tri_status begin(tri_rollout *step, const tri_rollout *asked) {
  TRI_ASSERT(step->store && step->store != asked->store);
  if (!step->start) {
    TRI_TRY(tri_rollout_make(0, 0, asked->group, asked->n_reward, step));
    step->has_logp = step->has_reward = true;
  }
  TRI_ASSERT(step->group == asked->group && step->n_reward == asked->n_reward);
  step->has_logp = step->has_logp && asked->has_logp;
  step->has_reward = step->has_reward && asked->has_reward;
  return TRI_OK;
}

tri_status tri_select_take(tri_selection *s, const tri_rollout *asked) {
  TRI_TRY(begin(s->step, asked));
  for (int g = 0; g < asked->n_seq / asked->group; g++) {
    bool takes = differs(asked, g);
    s->dropped += !takes;
    if (!takes || !s->lacks) continue;
    TRI_TRY(append(asked, g, s->step));
    s->lacks--;
  }
  return TRI_OK;
}

tri_status tri_select_fill(tri_selection *s, const tri_rollout *asked) {
  int first = s->step->n_seq;

  for (int g = 0; s->lacks && g < asked->n_seq / asked->group; g++) {
    if (differs(asked, g)) continue;
    TRI_TRY(append(asked, g, s->step));
    s->lacks--;
  }
  for (int q = first; q < s->step->n_seq; q++) s->step->masked[q] = TRI_FILLER;
  TRI_ASSERT(!s->lacks);
  return TRI_OK;
}
