/* score.c - trireme score MODEL DATA.jsonl: log-probability of every token given those before it; of a model
 * with a scalar head, its number for each text. */
#include "commands.h"
#include "infer/infer.h"
#include "io/text/json_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH_TOKENS = 2048 }; /* chosen: products are at their best */

typedef struct request {
  const char    *data, *dtype, *base, *prompt_key, *completion_key;
  int64_t        threads;
  bool           json, help;
  tri_infer_talk talk;
} request;

/* Tokens up to the one that a scalar head is read at: the last that is no padding (transformers,
 * modeling_layers.py, GenericForSequenceClassification). */
static int64_t length_of(const tri_infer *f, const tri_example *e) {
  bool    scored = tri_source_shape(f->source)->scored;
  int64_t n = e->n_token;

  while (scored && n > 1 && e->token[n - 1] == tri_source_eos(f->source)->pad) n--;
  return n;
}

/* The lines as one rollout: every token but the first is scored, or the last alone. */
static tri_status as_rollout(const tri_infer *f, const tri_dataset *d, tri_rollout *r) {
  int64_t n = tri_dataset_count(d), n_tok = tri_dataset_stats(d)->n_token;

  if (n > INT32_MAX / 2) TRI_FAIL(TRI_EINPUT, "%lld lines are too many for one call", (long long)n);
  TRI_TRY(tri_rollout_make((int)n, n_tok, 1, 0, r));
  for (int64_t i = 0; i < n; i++) {
    const tri_example *e = tri_dataset_get(d, i);
    r->start[i + 1] = r->start[i] + length_of(f, e);
    memcpy(r->token + r->start[i], e->token, (size_t)length_of(f, e) * 4);
  }
  return TRI_OK;
}

/* Collective over world. old_logp of every token, on every rank; at the last one what a scalar head says. */
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
        tri_batch_load(f->feed, r, sp.seq + sp.first[i], sp.first[i + 1] - sp.first[i], f->se.stream, &b));
    TRI_TRY_DONE(tri_model_forward(f->model, &b, false, 1.0f, &given, f->se.stream));
    TRI_TRY_DONE(tri_batch_fetch(f->feed, &given, NULL, f->se.stream, &in, &out));
    for (int64_t k = 0; k < in.n; k++) sum[in.origin[k]] = (double)(in.logp ? in.logp : in.value)[k];
  }
  /* Each row was computed by one rank; adding zeros keeps its bits. */
  TRI_TRY_DONE(tri_host_sum(world, sum, r->n_tok));
  for (int64_t i = 0; i < r->n_tok; i++) {
    if (isnan(sum[i]))
      TRI_FAIL_DONE(TRI_ENUMERIC,
                    "the model gives a token a log-probability, or a text a score, that is not a number: %s",
                    tri_params_options(tri_model_params(f->model))->dtype == TRI_F16
                        ? "in fp16 nothing is above 65504, try --dtype bf16 or f32; or its weights are "
                          "damaged, or it has diverged"
                        : "its weights are damaged or it has diverged");
    r->old_logp[i] = (float)sum[i];
  }
done:
  TRI_FREE(sum);
  tri_split_free(&sp);
  return st;
}

static tri_status put_tokens(const tri_rollout *r, int q, tri_text *out) {
  int64_t begin = r->start[q], n = r->start[q + 1] - begin;

  TRI_TRY(tri_text_printf(out, "{\"tokens\": ["));
  for (int64_t i = 0; i < n; i++) TRI_TRY(tri_text_printf(out, "%s%d", i ? ", " : "", r->token[begin + i]));
  return tri_text_printf(out, "]");
}

static tri_status put_score(const tri_rollout *r, int q, tri_text *out) {
  TRI_TRY(put_tokens(r, q, out));
  TRI_TRY(tri_text_printf(out, ", \"score\": "));
  TRI_TRY(tri_json_put_float(out, r->old_logp[r->start[q + 1] - 1]));
  return tri_text_printf(out, "}\n");
}

static tri_status put_line(const tri_rollout *r, int q, tri_text *out, double *total) {
  int64_t begin = r->start[q], n = r->start[q + 1] - begin;
  double  sum = 0;

  TRI_TRY(put_tokens(r, q, out));
  TRI_TRY(tri_text_printf(out, ", \"logprobs\": [null"));
  for (int64_t i = 1; i < n; i++) {
    TRI_TRY(tri_text_printf(out, ", "));
    TRI_TRY(tri_json_put_float(out, r->old_logp[begin + i]));
    sum += (double)r->old_logp[begin + i];
  }
  TRI_TRY(tri_text_printf(out, "], \"sum\": "));
  TRI_TRY(tri_json_put_double(out, sum));
  *total += sum;
  return tri_text_printf(out, ", \"tokens_scored\": %lld}\n", (long long)(n - 1));
}

static tri_status print_all(const tri_rollout *r, const request *q, bool texts) {
  tri_text   out = {0};
  tri_status st = TRI_OK;
  double     total = 0;
  int64_t    scored = r->n_tok - r->n_seq;

  for (int i = 0; i < r->n_seq && st == TRI_OK; i++) {
    out.len = 0;
    st = texts ? put_score(r, i, &out) : put_line(r, i, &out, &total);
    if (st == TRI_OK) fwrite(out.data, 1, out.len, stdout);
  }
  fflush(stdout);
  tri_text_free(&out);
  if (st == TRI_OK && !q->json && !texts)
    tri_log(TRI_LOG_INFO, "%d lines, %lld tokens scored, perplexity %.6g", r->n_seq, (long long)scored,
            scored ? exp(-total / (double)scored) : NAN);
  return st;
}

static tri_status run(const char *model, const request *q) {
  tri_infer    f = {0};
  tri_dataset *data = NULL;
  tri_rollout  r = {0};
  tri_status   st = TRI_OK;

  TRI_TRY_DONE(tri_infer_open(model, q->base, true, q->threads, &f));
  TRI_TRY_DONE(tri_agree(f.se.comm[TRI_WORLD], tri_infer_chat(&f, &q->talk)));
  tri_data_opt opt = tri_infer_data(&f, TRI_DATA_SCORE);
  opt.prompt_key = q->prompt_key;
  opt.completion_key = q->completion_key;
  TRI_TRY_DONE(tri_dataset_open_shared(&q->data, 1, &opt, f.se.comm[TRI_WORLD], &data));
  if (f.se.rt.world_rank == 0) tri_dataset_say_talk(data, f.chat, q->data);
  int64_t        longest = tri_dataset_stats(data)->longest;
  tri_infer_size size = {q->dtype, 0, 1, 0, longest > BATCH_TOKENS ? longest : BATCH_TOKENS, longest};
  TRI_TRY_DONE(tri_infer_ready(&f, &size));
  TRI_TRY_DONE(tri_agree(f.se.comm[TRI_WORLD], as_rollout(&f, data, &r)));
  TRI_TRY_DONE(score_all(&f, &r, size.max_score));
  if (f.se.rt.world_rank == 0) TRI_TRY_DONE(print_all(&r, q, tri_source_shape(f.source)->scored));
done:
  tri_rollout_free(&r);
  tri_dataset_close(&data);
  tri_infer_leave(&f, st);
  return st;
}

static tri_status score(int argc, char **argv, int *code) {
  request  q = {0};
  tri_flag flag[] = {{"--dtype", TRI_FLAG_WORD, &q.dtype, 0, 0, "f32|bf16|fp16",
                      "type the model computes in (that of the run, or of the model's files)"},
                     {"--prompt-key", TRI_FLAG_TEXT, &q.prompt_key, 0, 0, "KEY",
                      "field of a line that holds the prompt, or a path such as extra.question (prompt)"},
                     {"--completion-key", TRI_FLAG_TEXT, &q.completion_key, 0, 0, "KEY",
                      "field or path that holds the text behind it (completion)"},
                     TRI_INFER_TALK_FLAGS(q.talk),
                     TRI_INFER_BASE(&q.base),
                     TRI_INFER_THREADS(&q.threads),
                     {"--json", TRI_FLAG_BOOL, &q.json, 0, 0, NULL,
                      "no perplexity line on stderr; the lines are JSON either way"}};
  int      n;

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
    "log-probability of every token given those before it; of a reward model, scores", score};
