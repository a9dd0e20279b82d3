/* command_score.c - trireme score MODEL DATA.jsonl: computes log-probabilities, scores of a reward model, and
 * margins of pairs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "commands.h"
#include "tools/infer/infer.h"
#include "io/text/json_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_TOKENS = 2048 }; /* chosen: matrix products run at full speed */

typedef struct request {
  const char            *data, *dtype, *base, *prompt_key, *completion_key, *chosen_key, *rejected_key;
  int64_t                threads, tensor;
  bool                   json, help;
  tri_infer_conversation conversation;
} request;

/* The texts to score. A line of the data set is one sequence, or a pair of two sequences. */
typedef struct texts {
  const tri_infer   *f;
  const tri_dataset *data;
  bool               pairs, scored; /* scored by a scalar head */
} texts;

/* One sequence. `skip` marks tokens behind the prompt that do not belong to the answer. */
typedef struct side {
  const int32_t *token;
  const uint8_t *skip; /* NULL if all tokens behind the prompt belong to the answer */
  int64_t        n, n_prompt;
} side;

/* Returns sequence q. A scalar head is read at the last token before the padding (transformers,
 * modeling_layers.py, GenericForSequenceClassification). */
static side side_at(const texts *x, int64_t q) {
  const tri_example *e = tri_dataset_get(x->data, x->pairs ? q / 2 : q);
  side               s = {e->token, e->skip, e->n_token, e->n_prompt};

  if (x->pairs && q % 2) s = (side){e->rejected, e->rejected_skip, e->n_rejected, e->n_prompt};
  while (x->scored && s.n > 1 && s.token[s.n - 1] == tri_source_eos(x->f->source)->pad) s.n--;
  return s;
}

/* Puts the texts into one rollout. The model scores every token but the first, or the last token alone
 * (scalar head). */
static tri_status as_rollout(const texts *x, tri_rollout *r) {
  int64_t n = tri_dataset_count(x->data) * (x->pairs ? 2 : 1), n_tok = tri_dataset_stats(x->data)->n_token;

  if (n > INT32_MAX / 2)
    TRI_FAIL(TRI_EINPUT, "%lld texts are too many for one call. Split the file", (long long)n);
  TRI_TRY(tri_rollout_make((int)n, n_tok, 1, 0, r));
  for (int64_t q = 0; q < n; q++) {
    side s = side_at(x, q);
    r->start[q + 1] = r->start[q] + s.n;
    memcpy(r->token + r->start[q], s.token, (size_t)s.n * 4);
  }
  return TRI_OK;
}

/* Collective over world. Computes old_logp of every token, on every rank. With a scalar head the last token
 * holds the score. */
static tri_status score_all(tri_infer *f, tri_rollout *r, int64_t max_tokens) {
  tri_comm  *world = f->se.comm[TRI_WORLD];
  tri_split  sp = {0};
  double    *sum = NULL;
  tri_status st = TRI_OK;

  tri_split_opt opt = {
      .n = r->n_seq, .together = 1, .rank = world->rank, .size = world->size, .max_tokens = max_tokens};
  TRI_TRY(tri_split_make(r, &opt, &sp));
  TRI_TRY_DONE(TRI_ALLOC(sum, r->n_tok));
  for (int i = 0; i < sp.n_micro; i++) {
    tri_batch    b;
    tri_rows_out given;
    tri_loss_in  in;
    tri_loss_out out;
    TRI_TRY_DONE(
        tri_batch_load(f->staging, r, sp.seq + sp.first[i], sp.first[i + 1] - sp.first[i], f->se.stream, &b));
    TRI_TRY_DONE(tri_model_forward(f->model, &b, false, 1.0f, &given, f->se.stream));
    TRI_TRY_DONE(tri_batch_fetch(f->staging, &given, NULL, f->se.stream, &in, &out));
    for (int64_t k = 0; k < in.n; k++) sum[in.origin[k]] = (double)(in.logp ? in.logp : in.value)[k];
  }
  /* One rank computed each row. Adding zeros of the other ranks keeps its bits. */
  TRI_TRY_DONE(tri_host_sum(world, sum, r->n_tok));
  for (int64_t i = 0; i < r->n_tok; i++) {
    if (isnan(sum[i]))
      TRI_FAIL_DONE(
          TRI_ENUMERIC, "a log-probability or score of the model is NaN: %s",
          tri_params_options(tri_model_params(f->model))->dtype == TRI_F16
              ? "values above 65504 overflow in fp16, so try --dtype bf16 or f32. Otherwise its weights "
                "are damaged or it has diverged"
              : "its weights are damaged or it has diverged");
    r->old_logp[i] = (float)sum[i];
  }
done:
  TRI_FREE(sum);
  tri_split_free(&sp);
  return st;
}

/* ---- output ---- */

/* Sums of log-probabilities, nats. */
typedef struct sums {
  double  all, answer;
  int64_t n_all, n_answer; /* tokens */
} sums;

/* Totals over all lines. The first entry sums the lines, or the chosen answers of pairs. The second sums the
 * rejected answers. */
typedef struct totals {
  sums    of[2];
  int64_t n, ahead; /* pairs, and pairs with the chosen side ahead */
  double  margin;
} totals;

static void add_sums(const sums *x, sums *to) {
  to->all += x->all;
  to->answer += x->answer;
  to->n_all += x->n_all;
  to->n_answer += x->n_answer;
}

/* Sums the log-probabilities of sequence q. Its answer is the text after the prompt. */
static sums sum_up(const texts *x, const tri_rollout *r, int q) {
  const float *logp = r->old_logp + r->start[q];
  side         s = side_at(x, q);
  sums         sum = {.n_all = s.n - 1};

  for (int64_t i = 1; i < s.n; i++) {
    bool answers = s.n_prompt > 0 && i >= s.n_prompt && !(s.skip && s.skip[i]);
    sum.all += (double)logp[i];
    if (answers) sum.answer += (double)logp[i];
    sum.n_answer += answers;
  }
  return sum;
}

/* Writes one sequence as a JSON object. `sum` is not used if the text has a score. */
static tri_status put_side(const texts *x, const tri_rollout *r, int q, const sums *sum, tri_text *out) {
  int64_t begin = r->start[q], n = r->start[q + 1] - begin;

  TRI_TRY(tri_text_printf(out, "{\"tokens\": ["));
  for (int64_t i = 0; i < n; i++) TRI_TRY(tri_text_printf(out, "%s%d", i ? ", " : "", r->token[begin + i]));
  TRI_TRY(tri_text_printf(out, "], "));
  if (x->scored) {
    TRI_TRY(tri_text_printf(out, "\"score\": "));
    TRI_TRY(tri_json_put_float(out, r->old_logp[begin + n - 1]));
    return tri_text_printf(out, "}");
  }
  TRI_TRY(tri_text_printf(out, "\"logprobs\": [null"));
  for (int64_t i = 1; i < n; i++) {
    TRI_TRY(tri_text_printf(out, ", "));
    TRI_TRY(tri_json_put_float(out, r->old_logp[begin + i]));
  }
  TRI_TRY(tri_text_printf(out, "], \"sum\": "));
  TRI_TRY(tri_json_put_double(out, sum->all));
  TRI_TRY(tri_text_printf(out, ", \"tokens_scored\": %lld", (long long)sum->n_all));
  if (side_at(x, q).n_prompt > 0) {
    TRI_TRY(tri_text_printf(out, ", \"completion_logprob\": "));
    TRI_TRY(tri_json_put_double(out, sum->answer));
    TRI_TRY(tri_text_printf(out, ", \"completion_tokens\": %lld", (long long)sum->n_answer));
  }
  return tri_text_printf(out, "}");
}

/* The value of one side of a pair: its score, else the log-probability of its answer. If the pair has no
 * prompt, it is the log-probability of the whole text. */
static double worth(const texts *x, const tri_rollout *r, int q, const sums *sum) {
  if (x->scored) return (double)r->old_logp[r->start[q + 1] - 1];
  return side_at(x, q).n_prompt > 0 ? sum->answer : sum->all;
}

static tri_status put_line(const texts *x, const tri_rollout *r, int i, tri_text *out, totals *t) {
  sums sum = sum_up(x, r, i);

  add_sums(&sum, &t->of[0]);
  TRI_TRY(put_side(x, r, i, &sum, out));
  return tri_text_printf(out, "\n");
}

static tri_status put_pair(const texts *x, const tri_rollout *r, int i, tri_text *out, totals *t) {
  static const char *const name[] = {"{\"chosen\": ", ", \"rejected\": "};
  double                   value[2];

  for (int k = 0; k < 2; k++) {
    sums sum = sum_up(x, r, 2 * i + k);
    value[k] = worth(x, r, 2 * i + k, &sum);
    add_sums(&sum, &t->of[k]);
    TRI_TRY(tri_text_printf(out, "%s", name[k]));
    TRI_TRY(put_side(x, r, 2 * i + k, &sum, out));
  }
  t->n++;
  t->ahead += value[0] > value[1];
  t->margin += value[0] - value[1];
  TRI_TRY(tri_text_printf(out, ", \"margin\": "));
  TRI_TRY(tri_json_put_double(out, value[0] - value[1]));
  return tri_text_printf(out, "}\n");
}

static double perplexity(double sum, int64_t n) { return n ? exp(-sum / (double)n) : (double)NAN; }

static void say_pairs(const texts *x, const totals *t) {
  char both[80] = "";

  if (!x->scored)
    snprintf(both, sizeof both, "; perplexity of the chosen %.6g, of the rejected %.6g",
             perplexity(t->of[0].answer, t->of[0].n_answer), perplexity(t->of[1].answer, t->of[1].n_answer));
  tri_log(TRI_LOG_INFO, "%lld pair%s, accuracy %.6g, margin mean %.6g%s", (long long)t->n,
          t->n == 1 ? "" : "s", (double)t->ahead / (double)t->n, t->margin / (double)t->n, both);
}

/* Prints the completions' figures first, since the model did not write the prompts. */
static void say_lines(const tri_rollout *r, const sums *s) {
  if (s->n_answer)
    tri_log(TRI_LOG_INFO,
            "%d line%s, %lld completion token%s, perplexity %.6g; all %lld tokens scored, perplexity %.6g",
            r->n_seq, r->n_seq == 1 ? "" : "s", (long long)s->n_answer, s->n_answer == 1 ? "" : "s",
            perplexity(s->answer, s->n_answer), (long long)s->n_all, perplexity(s->all, s->n_all));
  else
    tri_log(TRI_LOG_INFO, "%d line%s, %lld token%s scored, perplexity %.6g", r->n_seq,
            r->n_seq == 1 ? "" : "s", (long long)s->n_all, s->n_all == 1 ? "" : "s",
            perplexity(s->all, s->n_all));
}

static tri_status print_all(const texts *x, const tri_rollout *r, const request *q) {
  tri_text   out = {0};
  tri_status st = TRI_OK;
  totals     t = {.n = 0};

  for (int i = 0; i < r->n_seq / (x->pairs ? 2 : 1) && st == TRI_OK; i++) {
    out.len = 0;
    st = (x->pairs ? put_pair : put_line)(x, r, i, &out, &t);
    if (st == TRI_OK) fwrite(out.data, 1, out.len, stdout);
  }
  fflush(stdout);
  tri_text_free(&out);
  if (st != TRI_OK || q->json) return st;
  if (x->pairs)
    say_pairs(x, &t);
  else if (!x->scored)
    say_lines(r, &t.of[0]);
  return TRI_OK;
}

/* Collective over world. Tells whether the lines are pairs. With --completion-key they are not, because it
 * names one text of a line. */
static tri_status find_pairs(const tri_infer *f, const request *q, bool *out) {
  tri_status st = TRI_OK;

  *out = false;
  if (!q->completion_key && f->se.rt.world_rank == 0)
    st = tri_dataset_is_paired(q->data, q->chosen_key, q->rejected_key, out);
  TRI_TRY(tri_agree(f->se.comm[TRI_WORLD], st));
  return tri_host_bcast(f->se.comm[TRI_WORLD], out, sizeof *out, 0);
}

static tri_status run(const char *model, const request *q) {
  static const char *const flags[] = {"--prompt-key", "--completion-key", "--chosen-key", "--rejected-key",
                                      NULL};

  tri_infer    f = {0};
  tri_dataset *data = NULL;
  tri_rollout  r = {0};
  texts        x = {.f = &f};
  tri_status   st = TRI_OK;

  TRI_TRY_DONE(tri_infer_open(model, q->base, true, q->threads, q->tensor, &f));
  TRI_TRY_DONE(tri_agree(f.se.comm[TRI_WORLD], tri_infer_chat(&f, &q->conversation)));
  TRI_TRY_DONE(find_pairs(&f, q, &x.pairs));
  tri_data_opt opt = tri_infer_data(&f, x.pairs ? TRI_DATA_PAIRS : TRI_DATA_SCORE);
  opt.flags = flags;
  opt.prompt_key = q->prompt_key;
  opt.chosen_key = q->chosen_key;
  opt.rejected_key = q->rejected_key;
  opt.completion_key = q->completion_key;
  TRI_TRY_DONE(tri_dataset_open_shared(&q->data, 1, &opt, f.se.comm[TRI_WORLD], &data));
  if (f.se.rt.world_rank == 0) tri_dataset_say_conversation(data, f.chat, q->data);
  int64_t        longest = tri_dataset_stats(data)->longest;
  tri_infer_size size = {q->dtype, 0, 1, 0, longest > BATCH_TOKENS ? longest : BATCH_TOKENS, longest};
  TRI_TRY_DONE(tri_infer_ready(&f, &size));
  x.data = data;
  x.scored = tri_source_shape(f.source)->scored;
  TRI_TRY_DONE(tri_agree(f.se.comm[TRI_WORLD], as_rollout(&x, &r)));
  TRI_TRY_DONE(score_all(&f, &r, size.max_score));
  if (f.se.rt.world_rank == 0) TRI_TRY_DONE(print_all(&x, &r, q));
done:
  tri_rollout_free(&r);
  tri_dataset_close(&data);
  tri_infer_leave(&f, st);
  return st;
}

static tri_status score(int argc, char **argv, int *code) {
  request  q = {0};
  tri_flag flag[] = {
      {"--dtype", TRI_FLAG_WORD, &q.dtype, 0, 0, "f32|bf16|fp16",
       "type the model computes in (default the run's, or that of the model's files)"},
      {"--prompt-key", TRI_FLAG_TEXT, &q.prompt_key, 0, 0, "KEY",
       "field of the prompt in a line, or a path such as extra.question (default prompt)"},
      {"--completion-key", TRI_FLAG_TEXT, &q.completion_key, 0, 0, "KEY",
       "field or path of the text after the prompt (default completion). For pairs, `chosen` scores the "
       "chosen side alone"},
      {"--chosen-key", TRI_FLAG_TEXT, &q.chosen_key, 0, 0, "KEY",
       "field or path of the better answer of a pair (default chosen)"},
      {"--rejected-key", TRI_FLAG_TEXT, &q.rejected_key, 0, 0, "KEY",
       "field or path of the worse answer of a pair (default rejected)"},
      TRI_INFER_CONVERSATION_FLAGS(q.conversation),
      TRI_INFER_BASE(&q.base),
      TRI_INFER_THREADS(&q.threads),
      TRI_INFER_TENSOR(&q.tensor,
                       "above 1, the ranks of a node share the weights, and each gathers the layer that it "
                       "computes. N must divide the ranks of a node (default 1)"),
      {"--json", TRI_FLAG_BOOL, &q.json, 0, 0, NULL,
       "print no summary on stderr. The lines on stdout are JSON in any case"}};
  int n;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_score, flag, sizeof flag / sizeof *flag, argc, argv, &n, &q.help));
  if (q.help) return TRI_OK;
  const tri_need need[] = {{"MODEL", n > 0}, {"DATA.jsonl", n > 1}};
  TRI_TRY(tri_flags_need(&tri_command_score, need, 2, n > 2 ? argv[2] : NULL));
  q.data = argv[1];
  return run(argv[0], &q);
}

const tri_command tri_command_score = {
    "score", "MODEL DATA.jsonl [flags]",
    "compute log-probabilities and perplexity, scores of a reward model, and both sides of pairs with "
    "their margin",
    score};
