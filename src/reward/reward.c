/* reward.c - the table of rewards, and the weighted sum of those a deck lists. */
#include "reward.h"
#include "base/visible.h"
#include "rollout/rollout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define POINTER(name) &tri_reward_##name,
static const tri_reward *const table[] = {TRI_REWARD_LIST(POINTER)};
enum { N_REWARD = sizeof table / sizeof *table };

typedef struct set_row {
  const tri_reward *kind;
  void             *state;
  double            weight;
  char              name[48]; /* unique in the set */
  bool              warned;
} set_row;

struct tri_reward_set {
  int     n;
  bool    warned_text;
  set_row row[TRI_REWARDS_MAX];
};

const tri_reward *tri_reward_at(int i) { return i >= 0 && i < N_REWARD ? table[i] : NULL; }

const tri_reward *tri_reward_find(const char *name) {
  for (int i = 0; i < N_REWARD; i++)
    if (!strcmp(table[i]->name, name)) return table[i];
  return NULL;
}

void tri_reward_names(const char *last, char out[TRI_REWARD_NAMES_BYTES]) {
  size_t used = 0;

  for (int i = 0; i < N_REWARD; i++) {
    used += (size_t)snprintf(out + used, TRI_REWARD_NAMES_BYTES - used, "%s%s",
                             !i                 ? ""
                             : i < N_REWARD - 1 ? ", "
                                                : last,
                             table[i]->name);
    TRI_ASSERT(used < TRI_REWARD_NAMES_BYTES);
  }
}

const char *tri_reward_get(const tri_reward_opt *o, const char *field) {
  for (int i = 0; i < o->n_field; i++)
    if (!strcmp(o->field[i].name, field)) return o->field[i].value;
  return NULL;
}

tri_status tri_reward_check_name(const char *name) {
  const char *known[N_REWARD], *near;
  char        all[TRI_REWARD_NAMES_BYTES];

  if (tri_reward_find(name)) return TRI_OK;
  for (int i = 0; i < N_REWARD; i++) known[i] = table[i]->name;
  near = tri_nearest(name, known, N_REWARD);
  tri_reward_names(" and ", all);
  TRI_FAIL(TRI_ECONFIG, "there is no reward '%.200s'; %s%s", name,
           near ? "the nearest known is " : "known are ", near ? near : all);
}

static bool takes(const tri_reward *kind, const char *field) {
  for (const tri_reward_field *f = kind->field; f && f->name; f++)
    if (!strcmp(f->name, field)) return true;
  return false;
}

tri_status tri_reward_check_fields(const tri_reward_opt *o, const char **field) {
  const tri_reward *kind = tri_reward_find(o->name);

  for (const tri_reward_field *f = kind->field; f && f->name; f++) {
    const char *value = tri_reward_get(o, f->name);
    if (!f->must || (value && value[0])) continue;
    *field = f->name;
    TRI_FAIL(TRI_ECONFIG, "reward %s needs a %s", o->name, f->name);
  }
  for (int i = 0; i < o->n_field; i++) {
    if (takes(kind, o->field[i].name)) continue;
    *field = o->field[i].name;
    TRI_FAIL(TRI_ECONFIG, "reward %s has no use for a %s", o->name, *field);
  }
  return TRI_OK;
}

enum { VALUE_SHOWN = 200 }; /* bytes; chosen: leaves room for the rest of a message */
/* st, its message behind the field: lead, name, between and the value. */
static tri_status name_field(tri_status st, const tri_reward_opt *o, const char *field, const char *lead,
                             const char *between) {
  const char *value = tri_reward_get(o, field);
  char        why[TRI_MESSAGE_BYTES];

  if (st == TRI_OK) return TRI_OK;
  snprintf(why, sizeof why, "%s", tri_error_message());
  tri_error_clear();
  TRI_FAIL(st, "%s%s%s%.*s%s: %s", lead, field, value ? between : "", VALUE_SHOWN, value ? value : "",
           value && strlen(value) > VALUE_SHOWN ? "..." : "", why);
}

static tri_status check_row(const tri_reward_opt *o, const tri_reward_env *env, const char *lead,
                            const char *between) {
  const tri_reward *kind = tri_reward_find(o->name);
  const char       *field = "name";
  tri_status        st;

  if (!isfinite(o->weight))
    TRI_FAIL(TRI_ECONFIG, "%sweight%s%g of %s: must be finite", lead, between, o->weight, o->name);
  st = tri_reward_check_fields(o, &field);
  if (st == TRI_OK && kind->check) st = kind->check(o, env, &field);
  return name_field(st, o, field, lead, between);
}

tri_status tri_reward_check(const tri_reward_opt *o, const tri_reward_env *env) {
  TRI_TRY(tri_error_at(tri_reward_check_name(o->name), "reward.name"));
  return check_row(o, env, "reward.", " = ");
}

tri_status tri_reward_check_flags(const tri_reward_opt *o, const tri_reward_env *env) {
  TRI_TRY(tri_error_at(tri_reward_check_name(o->name), "--reward"));
  return check_row(o, env, "--", " ");
}

unsigned tri_reward_needs(const tri_reward_opt *o, int n) {
  unsigned needs = 0;

  for (int i = 0; i < n; i++) needs |= tri_reward_find(o[i].name)->needs;
  return needs;
}

static tri_status row_open(tri_reward_set *s, const tri_reward_opt *o, const tri_reward_env *env) {
  set_row *row = &s->row[s->n];
  int      same = 1;

  TRI_TRY(tri_reward_check(o, env));
  row->kind = tri_reward_find(o->name);
  row->weight = o->weight;
  for (int i = 0; i < s->n; i++) same += s->row[i].kind == row->kind;
  snprintf(row->name, sizeof row->name, same > 1 ? "%s_%d" : "%s", row->kind->name, same);
  row->state = NULL;
  if (row->kind->open) TRI_TRY(row->kind->open(o, env, &row->state));
  s->n++;
  return TRI_OK;
}

tri_status tri_reward_set_open(const tri_reward_opt *o, int n, const tri_reward_env *env,
                               tri_reward_set **out) {
  tri_status st = TRI_OK;

  *out = NULL;
  if (n < 1 || n > TRI_REWARDS_MAX)
    TRI_FAIL(TRI_ECONFIG, "reward: has %d entries: must be 1 to %d", n, TRI_REWARDS_MAX);
  TRI_TRY(TRI_ALLOC(*out, 1));
  for (int i = 0; i < n; i++) TRI_TRY_DONE(row_open(*out, &o[i], env));
done:
  if (st != TRI_OK) tri_reward_set_close(out);
  return st;
}

void tri_reward_set_close(tri_reward_set **s) {
  if (!*s) return;
  for (int i = 0; i < (*s)->n; i++)
    if ((*s)->row[i].kind->close) (*s)->row[i].kind->close(&(*s)->row[i].state);
  TRI_FREE(*s);
}

const char *tri_reward_set_refuse(const tri_reward_set *s, const char *truth, size_t n) {
  const char *why = NULL;

  for (int i = 0; i < s->n && !why; i++)
    if (s->row[i].kind->refuse) why = s->row[i].kind->refuse(s->row[i].state, truth, n);
  return why;
}

static tri_status check_truths(const tri_reward *kind, const tri_answer *a, int n) {
  for (int q = 0; q < n && (kind->needs & TRI_REWARD_TRUTH); q++)
    if (!a[q].truth)
      TRI_FAIL(TRI_EINPUT,
               "prompt_id %lld has no answer that reward %s could compare with; look at data.answer_key",
               (long long)a[q].prompt_id, kind->name);
  return TRI_OK;
}

/* What one reward said, into its column of part [n,s->n] and into the sum. */
static tri_status add_scores(const tri_reward_set *s, int i, const tri_answer *a, int n, float *score,
                             float *part, double *sum, int32_t *failed) {
  for (int q = 0; q < n; q++) {
    if (isnan(score[q])) {
      failed[q] |= 1 << i;
      score[q] = 0;
    }
    if (!isfinite(score[q]))
      TRI_FAIL(TRI_ENUMERIC, "reward %s gave %g to an answer to prompt_id %lld", s->row[i].name,
               (double)score[q], (long long)a[q].prompt_id);
    part[(int64_t)q * s->n + i] = score[q];
    sum[q] += s->row[i].weight * (double)score[q];
  }
  return TRI_OK;
}

static tri_status put_totals(const tri_answer *a, int n, const double *sum, float *total) {
  for (int q = 0; q < n; q++) {
    total[q] = (float)sum[q];
    if (!isfinite(total[q]))
      TRI_FAIL(TRI_ENUMERIC,
               "the weighted sum of rewards is %g for an answer to prompt_id %lld; look at reward.weight",
               sum[q], (long long)a[q].prompt_id);
  }
  return TRI_OK;
}

tri_status tri_reward_set_score(tri_reward_set *s, const tri_answer *a, int n, float *part, float *total,
                                int32_t *failed) {
  float     *score = NULL;
  double    *sum = NULL;
  tri_status st = TRI_ALLOC(score, n), one;

  if (st == TRI_OK) st = TRI_ALLOC(sum, n);
  for (int q = 0; q < n; q++) failed[q] = 0;
  for (int i = 0; i < s->n; i++) {
    const tri_reward *kind = s->row[i].kind;
    if (st == TRI_OK) st = check_truths(kind, a, n);
    int here = st == TRI_OK ? n : 0; /* a rank that failed still takes its part in what is collective */
    one = TRI_OK;
    if (here || (kind->needs & TRI_REWARD_COLLECTIVE)) one = kind->score(s->row[i].state, a, here, score);
    if (st == TRI_OK) st = one;
    if (st == TRI_OK) st = add_scores(s, i, a, n, score, part, sum, failed);
  }
  if (st == TRI_OK) st = put_totals(a, n, sum, total);
  TRI_FREE(score);
  TRI_FREE(sum);
  return st;
}

void tri_reward_set_warn(tri_reward_set *s, int i, int64_t prompt_id) {
  bool       *warned = i < 0 ? &s->warned_text : &s->row[i].warned;
  const char *name = i < 0 ? "" : s->row[i].name, *why = i < 0 ? NULL : s->row[i].kind->failure;

  if (!why) why = i < 0 ? "the tokenizer's decoder fails on its tokens" : "it gave no number";
  if (*warned) return;
  *warned = true;
  tri_log(TRI_LOG_WARN,
          "%s%s could not judge an answer to prompt_id %lld, which counts as 0 there: %s (said once; "
          "reward_failures counts such answers)",
          i < 0 ? "the rewards" : "reward ", name, (long long)prompt_id, why);
}

double tri_reward_set_most(const tri_reward_set *s, int i) {
  TRI_ASSERT(i >= 0 && i < s->n);
  return s->row[i].weight > 0 ? s->row[i].weight * s->row[i].kind->best : 0;
}

bool tri_reward_set_is_bounded(const tri_reward_set *s) {
  for (int i = 0; i < s->n; i++)
    if (isinf(tri_reward_set_most(s, i))) return false;
  return true;
}

bool tri_reward_set_is_full(const tri_reward_set *s, const float *part) {
  double all = 0, got = 0, taken = 0;

  for (int i = 0; i < s->n; i++) {
    double x = s->row[i].weight * (double)part[i];
    all += tri_reward_set_most(s, i);
    *(s->row[i].kind->best == 0 ? &taken : &got) += x;
  }
  return all > 0 ? (float)got >= (float)(all * (1 - 1e-6)) : (float)(got + taken) >= 0; /* sums are f32 */
}

unsigned tri_reward_set_needs(const tri_reward_set *s) {
  unsigned needs = 0;

  for (int i = 0; i < s->n; i++) needs |= s->row[i].kind->needs;
  return needs;
}

int tri_reward_set_count(const tri_reward_set *s) { return s->n; }

const char *tri_reward_set_name(const tri_reward_set *s, int i) {
  TRI_ASSERT(i >= 0 && i < s->n);
  return s->row[i].name;
}
