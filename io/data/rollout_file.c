/* rollout_file.c - writes rollouts as JSON lines, and reads them back for replay. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout_file.h"

#include "base/host_memory.h"
#include "io/text/json_text.h"
#include "io/text/jsonl.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Log-probabilities of other programs may round to slightly above 0. Chosen far above f32 rounding and far
 * below a mistake. */
static const double LOGP_SLACK_NATS = 1e-3;
/* Below this value the ratio of probabilities may exceed double, exp(709.8). */
static const double LOGP_LEAST_NATS = -700;

static const char *const stop_word[] = {
    [TRI_STOP_EOS] = "eos", [TRI_STOP_STRING] = "stop", [TRI_STOP_LENGTH] = "length"};
enum { N_STOP = sizeof stop_word / sizeof *stop_word };

tri_status tri_rollout_file_path(const char *folder, int64_t step, char out[TRI_FILE_PATH_BYTES]) {
  if (snprintf(out, TRI_FILE_PATH_BYTES, "%s/step-%08lld.jsonl", folder, (long long)step) >=
      TRI_FILE_PATH_BYTES)
    TRI_FAIL(TRI_EFILE, "%s: the path is too long", folder);
  return TRI_OK;
}

static tri_status put_tokens(tri_text *t, const int32_t *token, int64_t n) {
  for (int64_t i = 0; i < n; i++) TRI_TRY(tri_text_printf(t, "%s%d", i ? ", " : "", (int)token[i]));
  return TRI_OK;
}

static tri_status put_logprobs(tri_text *t, const float *logp, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(logp[i])) return TRI_OK;
  TRI_TRY(tri_text_printf(t, ", \"logprobs\": ["));
  for (int64_t i = 0; i < n; i++) {
    if (i) TRI_TRY(tri_text_put(t, ", ", 2));
    TRI_TRY(tri_json_put_float(t, logp[i]));
  }
  return tri_text_put(t, "]", 1);
}

static tri_status put_rewards(tri_text *t, const tri_rollout *r, int q, const char *const *reward_name) {
  if (!isfinite(r->reward[q]) && !r->failed[q]) return TRI_OK;
  TRI_TRY(tri_text_printf(t, ", \"reward\": "));
  TRI_TRY(tri_json_put_float(t, r->reward[q]));
  TRI_TRY(tri_text_printf(t, ", \"rewards\": {"));
  for (int i = 0; i < r->n_reward; i++) {
    if (i) TRI_TRY(tri_text_put(t, ", ", 2));
    TRI_TRY(tri_json_put_string(t, reward_name[i], strlen(reward_name[i])));
    TRI_TRY(tri_text_put(t, ": ", 2));
    TRI_TRY(tri_json_put_float(t, r->part[(int64_t)q * r->n_reward + i]));
  }
  return tri_text_put(t, "}", 1);
}

static tri_status put_text(tri_text *t, const char *key, const char *s, size_t n) {
  if (!s) return TRI_OK;
  TRI_TRY(tri_text_printf(t, "\"%s\": ", key));
  TRI_TRY(tri_json_put_string(t, s, n));
  return tri_text_put(t, ", ", 2);
}

static tri_status put_texts(tri_text *t, const tri_rollout_text *text) {
  TRI_TRY(put_text(t, "prompt", text->prompt, text->prompt_bytes));
  TRI_TRY(put_text(t, "response", text->response, text->response_bytes));
  if (!text->answer_is_json) return put_text(t, "answer", text->answer, text->answer_bytes);
  TRI_TRY(tri_text_printf(t, "\"answer\": "));
  TRI_TRY(tri_text_put(t, text->answer, text->answer_bytes));
  return tri_text_put(t, ", ", 2);
}

tri_status tri_rollout_file_line(const tri_rollout *r, int q, const tri_rollout_form *form,
                                 const tri_rollout_text *text, tri_text *t) {
  int64_t first = r->start[q], answer = first + r->prompt_len[q], n = r->start[q + 1] - first,
          row = tri_rollout_first_row(r, q);

  TRI_ASSERT(r->stop[q] >= 0 && r->stop[q] < N_STOP);
  TRI_TRY(tri_text_put(t, "{", 1));
  if (form->set) TRI_TRY(put_text(t, "set", form->set, strlen(form->set)));
  if (r->prompt_id[q] >= 0) TRI_TRY(tri_text_printf(t, "\"prompt_id\": %lld, ", (long long)r->prompt_id[q]));
  TRI_TRY(tri_text_printf(t, "\"sample\": %d, ", (int)r->sample[q]));
  if (text) TRI_TRY(put_texts(t, text));
  TRI_TRY(tri_text_printf(t, "\"tokens\": ["));
  TRI_TRY(put_tokens(t, r->token + first, n));
  TRI_TRY(tri_text_printf(t, "], \"prompt_tokens\": %d", (int)r->prompt_len[q]));
  TRI_TRY(put_logprobs(t, r->old_logp + answer, r->start[q + 1] - answer));
  if (form->reward_name) TRI_TRY(put_rewards(t, r, q, form->reward_name));
  if (form->advantages && tri_rollout_loss_tokens(r, q) > 0) {
    while (!tri_rollout_has_loss(r, row)) row++;
    TRI_TRY(tri_text_printf(t, ", \"advantage\": "));
    TRI_TRY(tri_json_put_float(t, r->adv[row]));
  }
  return tri_text_printf(t, ", \"stop\": \"%s\"%s}", stop_word[r->stop[q]],
                         r->masked[q] == TRI_FILLER ? ", \"filler\": true" : "");
}

/* One line of the file. */
typedef struct saved_line {
  int64_t  prompt_id;
  int32_t  place, sample, prompt_len, stop, n;
  bool     has_logp, filler;
  float    reward, part[TRI_REWARDS_MAX];
  int32_t *token; /* [n] */
  float   *logp;  /* [n], NaN if unknown */
} saved_line;

/* The place of reading, for messages and limits. */
typedef struct place {
  tri_jsonl            *in;
  const tri_replay_opt *opt;
} place;

#define FAIL_AT(p, fmt, ...)                                                                                 \
  TRI_FAIL(TRI_EINPUT, "%s:%lld: " fmt, tri_jsonl_path((p)->in), (long long)tri_jsonl_line((p)->in),         \
           __VA_ARGS__)

/* Reads an integer. Leaves *out as it is if the key is absent or null. */
static tri_status get_integer(const place *p, const json_t *object, const char *key, int64_t least,
                              int64_t most, int64_t *out) {
  const json_t *v = json_object_get(object, key);

  if (!v || json_is_null(v)) return TRI_OK;
  if (!json_is_integer(v)) FAIL_AT(p, "`%s` must be an integer", key);
  if (json_integer_value(v) < least || json_integer_value(v) > most)
    FAIL_AT(p, "`%s` = %lld, but must be %lld to %lld", key, (long long)json_integer_value(v),
            (long long)least, (long long)most);
  *out = json_integer_value(v);
  return TRI_OK;
}

static tri_status get_float(const place *p, const json_t *object, const char *key, float *out) {
  const json_t *v = json_object_get(object, key);

  *out = NAN;
  if (!v || json_is_null(v)) return TRI_OK;
  if (!json_is_number(v) || !isfinite((float)json_number_value(v)))
    FAIL_AT(p, "reward `%s` must be a number that an f32 can hold, or null", key);
  *out = (float)json_number_value(v);
  return TRI_OK;
}

static tri_status get_tokens(const place *p, const json_t *object, saved_line *out) {
  const json_t *v = json_object_get(object, "tokens");
  size_t        n = json_array_size(v);
  char          fields[256];

  if (!v)
    FAIL_AT(p, "has no `tokens`; %s. A replayed line needs the ids of prompt and answer.",
            tri_jsonl_fields(p->in, fields, sizeof fields));
  if (!json_is_array(v) || n == 0)
    FAIL_AT(p, "%s", "`tokens` must be a list of the ids of prompt and answer, and not empty");
  if (n > INT32_MAX / 2) FAIL_AT(p, "%zu tokens are too many for one sequence", n);
  out->n = (int32_t)n;
  TRI_TRY(TRI_ALLOC(out->token, n));
  for (size_t i = 0; i < n; i++) {
    const json_t *id = json_array_get(v, i);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= p->opt->vocab)
      FAIL_AT(p, "`tokens` entry %zu is not an id of this vocabulary (0 to %lld)", i,
              (long long)p->opt->vocab - 1);
    out->token[i] = (int32_t)json_integer_value(id);
  }
  return TRI_OK;
}

static tri_status get_lengths(const place *p, const json_t *object, saved_line *out) {
  const tri_replay_opt *o = p->opt;
  int64_t               n = 1;

  TRI_TRY(get_integer(p, object, "prompt_tokens", 1, out->n, &n));
  out->prompt_len = (int32_t)n;
  if (n == out->n)
    FAIL_AT(p, "`prompt_tokens` = %lld is all of `tokens`, so there is no answer", (long long)n);
  if (o->max_prompt > 0 && n > o->max_prompt)
    FAIL_AT(p, "the prompt has %lld tokens, but data.max_prompt_length is %lld", (long long)n,
            (long long)o->max_prompt);
  if (o->max_response > 0 && out->n - n > o->max_response)
    FAIL_AT(p, "the answer has %lld tokens, but rollout.max_response_length is %lld", (long long)(out->n - n),
            (long long)o->max_response);
  return TRI_OK;
}

static tri_status get_logprobs(const place *p, const json_t *object, saved_line *out) {
  const json_t *v = json_object_get(object, "logprobs");
  size_t        n = (size_t)(out->n - out->prompt_len);

  TRI_TRY(TRI_ALLOC(out->logp, out->n));
  for (int32_t i = 0; i < out->n; i++) out->logp[i] = NAN;
  out->has_logp = v && !json_is_null(v);
  if (!out->has_logp) return TRI_OK;
  if (!json_is_array(v) || json_array_size(v) != n)
    FAIL_AT(p, "`logprobs` must be an array of %zu numbers, one for each token of the answer", n);
  for (size_t i = 0; i < n; i++) {
    const json_t *x = json_array_get(v, i);
    double        logp = json_number_value(x);
    if (!json_is_number(x) || !(logp >= LOGP_LEAST_NATS && logp <= LOGP_SLACK_NATS))
      FAIL_AT(p, "`logprobs` entry %zu is not the logarithm of a probability (a number from %g to 0)", i,
              LOGP_LEAST_NATS);
    out->logp[out->prompt_len + (int32_t)i] = (float)logp;
  }
  return TRI_OK;
}

static tri_status get_rewards(const place *p, const json_t *object, saved_line *out) {
  const json_t *parts = json_object_get(object, "rewards");

  TRI_TRY(get_float(p, object, "reward", &out->reward));
  if (parts && !json_is_object(parts) && !json_is_null(parts))
    FAIL_AT(p, "%s", "`rewards` must be an object of numbers");
  for (int i = 0; i < p->opt->n_reward; i++)
    TRI_TRY(get_float(p, parts, p->opt->reward_name[i], &out->part[i]));
  return TRI_OK;
}

static tri_status get_stop(const place *p, const json_t *object, saved_line *out) {
  const json_t *v = json_object_get(object, "stop");
  const char   *word = json_string_value(v);

  out->stop = TRI_STOP_EOS;
  if (!v || json_is_null(v)) return TRI_OK;
  for (int i = 0; word && i < N_STOP; i++) {
    if (strcmp(word, stop_word[i])) continue;
    out->stop = i;
    return TRI_OK;
  }
  FAIL_AT(p, "`stop` must be \"eos\", \"stop\" or \"length\"%s", "");
}

static tri_status get_filler(const place *p, const json_t *object, saved_line *out) {
  const json_t *v = json_object_get(object, "filler");

  out->filler = json_is_true(v);
  if (!v || json_is_null(v) || json_is_boolean(v)) return TRI_OK;
  FAIL_AT(p, "`filler` must be true or false%s", "");
}

/* Reads a line. The caller frees out's arrays, also after a failure. */
static tri_status get_line(const place *p, const json_t *object, int32_t sample, saved_line *out) {
  int64_t id = -1, number = sample;

  TRI_TRY(get_integer(p, object, "prompt_id", 0, INT64_MAX, &id));
  TRI_TRY(get_integer(p, object, "sample", 0, INT32_MAX, &number));
  out->prompt_id = id;
  out->sample = (int32_t)number;
  TRI_TRY(get_tokens(p, object, out));
  TRI_TRY(get_lengths(p, object, out));
  TRI_TRY(get_logprobs(p, object, out));
  TRI_TRY(get_rewards(p, object, out));
  TRI_TRY(get_filler(p, object, out));
  return get_stop(p, object, out);
}

static void line_free(saved_line *l) {
  TRI_FREE(l->token);
  TRI_FREE(l->logp);
}

/* The result for the whole file: the lines of this rank's groups, and facts about all lines. */
typedef struct saved_file {
  saved_line *line; /* [n] for this rank */
  int64_t     cap;
  int         n, n_all;
  bool        has_logp, has_reward;
  bool        fills; /* the last lines read are fillers */
} saved_file;

/* Checks that fillers are whole groups at the end. */
static tri_status check_filler(const place *p, const saved_line *l, int answer, saved_file *f) {
  bool begins = l->filler && !f->fills;

  if ((begins && answer == 0) || l->filler == f->fills) {
    f->fills = l->filler;
    return TRI_OK;
  }
  FAIL_AT(p, "%s, but lines with `filler` must be whole groups at the end of the file",
          begins ? "`filler` begins within a group" : "has no `filler` after a line with it");
}

/* Checks line number n_all of the file (without blank ones), and keeps it if its group is this rank's. */
static tri_status take_line(const place *p, const json_t *object, int rank, int size, int64_t *group_id,
                            saved_file *f) {
  tri_status st = TRI_OK;
  saved_line l = {0};
  int        answer = f->n_all % p->opt->group;

  if (f->n_all == (p->opt->max_answers ? p->opt->max_answers : INT32_MAX / 2))
    FAIL_AT(p, "more than %d answers, the product of rollout.rollout_batch_size and algo.num_generations",
            f->n_all);
  TRI_TRY_DONE(get_line(p, object, answer, &l));
  l.place = f->n_all / p->opt->group;
  if (answer == 0) *group_id = l.prompt_id;
  if (l.prompt_id != *group_id)
    TRI_FAIL_DONE(
        TRI_EINPUT,
        "%s:%lld: prompt_id is %lld, but this is answer %d of %d (algo.num_generations) to prompt_id "
        "%lld. The answers to one prompt must follow each other (-1 stands for no prompt_id).",
        tri_jsonl_path(p->in), (long long)tri_jsonl_line(p->in), (long long)l.prompt_id, answer + 1,
        p->opt->group, (long long)*group_id);
  TRI_TRY_DONE(check_filler(p, &l, answer, f));
  f->has_logp = f->has_logp && l.has_logp;
  f->has_reward = f->has_reward && !isnan(l.reward);
  if (f->n_all / p->opt->group % size == rank) {
    TRI_TRY_DONE(TRI_GROW(f->line, f->cap, f->n + 1));
    f->line[f->n++] = l;
    l = (saved_line){0};
  }
  f->n_all++;
done:
  line_free(&l);
  return st;
}

/* Refuses fields with unreadable values if they would be read. Other fields are for rewards and people. */
static tri_status refuse_odd(tri_jsonl *in) {
  static const char *const key[] = {"prompt_id", "sample", "tokens",  "prompt_tokens", "logprobs",
                                    "reward",    "stop",   "rewards", "filler"};

  for (size_t i = 0; i < sizeof key / sizeof *key; i++) TRI_TRY(tri_jsonl_refuse_odd(in, key[i]));
  return TRI_OK;
}

static tri_status take_file(const tri_replay_opt *opt, tri_jsonl *in, int rank, int size, saved_file *f) {
  place   p = {in, opt};
  json_t *object;
  int64_t group_id = -1;

  if (opt->max_line_bytes) tri_jsonl_limit(in, opt->max_line_bytes, "data.max_line_bytes");
  for (;;) {
    TRI_TRY(tri_jsonl_next(in, &object));
    if (!object) break;
    TRI_TRY(refuse_odd(in));
    TRI_TRY(take_line(&p, object, rank, size, &group_id, f));
  }
  if (f->n_all == 0 || f->n_all % opt->group)
    TRI_FAIL(TRI_EINPUT, "%s: has %d answer%s, not a positive multiple of algo.num_generations = %d",
             tri_jsonl_path(in), f->n_all, f->n_all == 1 ? "" : "s", opt->group);
  return TRI_OK;
}

static tri_status assemble(const saved_file *f, const tri_replay_opt *opt, tri_rollout *out) {
  int64_t n_tok = 0;

  for (int q = 0; q < f->n; q++) n_tok += f->line[q].n;
  TRI_TRY(tri_rollout_make(f->n, n_tok, opt->group, opt->n_reward, out));
  out->has_logp = f->has_logp;
  out->has_reward = f->has_reward;
  for (int q = 0; q < f->n; q++) {
    const saved_line *l = &f->line[q];
    int64_t           at = out->start[q];
    out->start[q + 1] = at + l->n;
    out->prompt_id[q] = l->prompt_id;
    out->place[q] = l->place;
    out->sample[q] = l->sample;
    out->prompt_len[q] = l->prompt_len;
    out->stop[q] = l->stop;
    out->masked[q] = l->filler ? TRI_FILLER : 0;
    out->reward[q] = l->reward;
    memcpy(out->token + at, l->token, (size_t)l->n * sizeof *l->token);
    memcpy(out->old_logp + at, l->logp, (size_t)l->n * sizeof *l->logp);
    for (int i = 0; i < opt->n_reward; i++) out->part[(int64_t)q * opt->n_reward + i] = l->part[i];
  }
  return TRI_OK;
}

tri_status tri_rollout_file_read(const char *folder, int64_t step, const tri_replay_opt *opt, int rank,
                                 int size, tri_rollout *out) {
  tri_status st = TRI_OK;
  saved_file f = {.has_logp = true, .has_reward = true};
  char       path[TRI_FILE_PATH_BYTES];
  tri_jsonl *in = NULL;

  TRI_ASSERT(opt->group > 0 && opt->n_reward >= 0 && opt->n_reward <= TRI_REWARDS_MAX);
  TRI_TRY_DONE(tri_rollout_file_path(folder, step, path));
  TRI_TRY_DONE(tri_jsonl_open(path, &in));
  TRI_TRY_DONE(take_file(opt, in, rank, size, &f));
  TRI_TRY_DONE(assemble(&f, opt, out));
done:
  for (int q = 0; q < f.n; q++) line_free(&f.line[q]);
  TRI_FREE(f.line);
  tri_jsonl_close(&in);
  if (st != TRI_OK) tri_rollout_clear(out);
  return st;
}
