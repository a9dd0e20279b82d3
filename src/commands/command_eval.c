/* command_eval.c - trireme eval MODEL: runs the evaluation of a run (eval_run.c). Evaluates any other model
 * with --data F.jsonl and --reward R. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/child.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "commands.h"
#include "tools/infer/infer.h"
#include "eval_figures.h"
#include "eval_run.h"
#include "reward/answers_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static tri_status summarise(const tri_infer *f, tri_reward_set *set, const tri_rollout *r,
                            tri_eval_figures *out) {
  const tri_answers_opt o = {.set = set,
                             .tokenizer = tri_source_tokenizer(f->source),
                             .end = tri_source_eos(f->source)->id,
                             .n_end = tri_source_eos(f->source)->n};
  int                  *vote = NULL;
  tri_status            st = TRI_OK;

  *out = (tri_eval_figures){.set = set, .prompts = r->n_seq / r->group, .num = r->group};
  TRI_TRY_DONE(TRI_ALLOC(vote, r->n_seq));
  TRI_TRY_DONE(tri_figures_vote(r, &o, vote));
  tri_figures_add(r, set, vote, &out->figures);
done:
  TRI_FREE(vote);
  return st;
}

static tri_status print_result(const tri_eval_figures *x, bool json) {
  tri_text   out = {0};
  tri_status st = TRI_OK;

  if (json) st = tri_eval_put_figures(x, &out);
  if (st == TRI_OK && json) printf("{%s}\n", out.data);
  if (!json) tri_eval_print_figures(x);
  fflush(stdout);
  tri_text_free(&out);
  return st;
}

/* Not collective. Finds the greatest length of an answer. --max-new comes first. Next comes the length of the
 * model's run, as far as the context allows. Else tri_infer_space chooses. */
static tri_status find_length(tri_infer *f, int64_t asked, int64_t longest, int64_t *max_new) {
  int64_t of_run = 0, left = tri_source_shape(f->source)->max_pos - longest;

  if (!asked && tri_source_checkpoint(f->source))
    TRI_TRY(tri_source_checkpoint_answer(tri_source_checkpoint(f->source), &of_run));
  if (of_run > left) of_run = left > 0 ? left : 0;
  TRI_TRY(tri_infer_space(f, longest, asked ? asked : of_run, max_new));
  if (of_run && f->se.rt.world_rank == 0)
    tri_log(TRI_LOG_INFO,
            "answers have up to %lld token%s, as in the run (rollout.max_response_length). --max-new sets "
            "another length",
            (long long)*max_new, *max_new == 1 ? "" : "s");
  return TRI_OK;
}

/* Collective over world. Generates and rewards answers to the first n prompts. Every rank gets all of
 * them. */
static tri_status answer(tri_infer *f, const tri_eval_request *q, const tri_dataset *d, int n,
                         tri_reward_set *set, int64_t max_new, tri_rollout *out) {
  tri_prompt         *prompt = NULL;
  const tri_example **example = NULL;
  tri_status          st = TRI_OK;
  tri_generate_opt opt = {.rule = {(float)q->temperature, (float)q->top_p, (int)q->top_k, (uint64_t)q->seed},
                          .max_new = max_new,
                          .group = (int)q->num,
                          .eos = tri_source_eos(f->source)->id,
                          .n_eos = tri_source_eos(f->source)->n};

  TRI_TRY(TRI_ALLOC(prompt, n));
  TRI_TRY_DONE(TRI_ALLOC(example, n));
  for (int i = 0; i < n; i++) {
    example[i] = tri_dataset_get(d, i);
    prompt[i] = (tri_prompt){example[i]->id, example[i]->token, example[i]->n_token};
  }
  TRI_TRY_DONE(tri_infer_generate(f, prompt, n, &opt, set, example, out));
done:
  TRI_FREE(prompt);
  TRI_FREE(example);
  return st;
}

static const char *refuse_answer(const void *rewards, const char *answer, size_t n) {
  return tri_reward_set_refuse(rewards, answer, n);
}

static tri_status open_data(tri_infer *f, const tri_eval_request *q, const tri_reward_set *set,
                            tri_dataset **out) {
  static const char *const flags[] = {"--prompt-key", "--answer-key", NULL};

  bool         truths = tri_reward_set_needs(set) & TRI_REWARD_TRUTH;
  int64_t      context = tri_source_shape(f->source)->max_pos;
  tri_data_opt opt;

  TRI_TRY(tri_infer_chat(f, &q->conversation));
  opt = tri_infer_data(f, truths ? TRI_DATA_RL : TRI_DATA_PROMPTS);
  if (q->max_new >= context)
    TRI_FAIL(TRI_EINPUT,
             "--max-new %lld leaves no space for a prompt, since the model's context is %lld tokens",
             (long long)q->max_new, (long long)context);
  opt.max_prompt_tokens = context - (q->max_new ? q->max_new : 1);
  opt.flags = flags;
  opt.prompt_key = q->prompt_key;
  opt.answer_key = q->answer_key;
  opt.refuse = refuse_answer;
  opt.refuse_ctx = set;
  opt.keep_fields = tri_reward_set_needs(set) & TRI_REWARD_FIELDS_OF_LINE;
  TRI_TRY(tri_dataset_open(&q->data, 1, &opt, out));
  if (f->se.rt.world_rank == 0) tri_dataset_say_conversation(*out, f->chat, q->data);
  return TRI_OK;
}

/* Called on rank 0. */
static tri_status write_output(const char *path, const tri_infer *f, const tri_dataset *data,
                               const tri_reward_set *set, const tri_rollout *r) {
  const tri_answers_form form = {f->encoder.tokenizer, data, set, false, NULL};
  tri_answers_file       out;
  tri_status             st;

  TRI_TRY(tri_answers_file_begin_new(path, &out));
  st = tri_answers_file_put(&out, r, &form);
  if (st == TRI_OK) return tri_answers_file_end(&out);
  tri_answers_file_drop(&out);
  return st;
}

static tri_status run(const char *model, const tri_eval_request *q, const tri_reward_opt *reward) {
  tri_reward_set  *set = NULL;
  tri_infer        f = {0};
  tri_reward_env   env = {.se = &f.se, .longest = q->max_new, .longest_key = "--max-new"};
  tri_dataset     *data = NULL;
  tri_rollout      r = {0};
  tri_eval_figures x;
  tri_on_error     on_error;
  int64_t          max_new;
  tri_status       st = TRI_OK;

  TRI_TRY_DONE(tri_infer_open(model, q->base, false, q->threads, q->tensor, &f));
  if (f.se.rt.world_rank == 0) tri_infer_warn_greedy(q->num, q->temperature);
  if (q->output)
    TRI_TRY_DONE(
        tri_agree(f.se.comm[TRI_WORLD], f.se.rt.world_rank == 0 ? tri_eval_check_output(q->output) : TRI_OK));
  tri_child_mind_signals();
  TRI_TRY_DONE(tri_agree(f.se.comm[TRI_WORLD], tri_reward_set_open(reward, 1, &env, &set)));
  TRI_TRY_DONE(tri_agree(f.se.comm[TRI_WORLD], open_data(&f, q, set, &data)));
  int64_t n = tri_dataset_count(data);
  if (q->max_prompts && q->max_prompts < n) n = q->max_prompts;
  TRI_TRY_DONE(tri_agree(f.se.comm[TRI_WORLD],
                         find_length(&f, q->max_new, tri_dataset_stats(data)->longest_prompt, &max_new)));
  if (n * q->num > INT32_MAX / 2)
    TRI_FAIL_DONE(TRI_EARG, "%lld prompts x --num %lld are too many answers for one call", (long long)n,
                  (long long)q->num);
  tri_infer_size size = {q->dtype, n * q->num, tri_dataset_stats(data)->longest_prompt, max_new, 0, 0};
  TRI_TRY_DONE(tri_infer_ready(&f, &size));
  TRI_TRY_DONE(answer(&f, q, data, (int)n, set, max_new, &r));
  TRI_TRY_DONE(tri_agree(f.se.comm[TRI_WORLD], summarise(&f, set, &r, &x)));
  x.reward_failures = tri_answers_failed(&r, set, f.se.rt.world_rank == 0);
  x.failing = reward->name;
  TRI_TRY_DONE(tri_reward_read_on_error(reward, &on_error));
  x.drops = on_error == TRI_ON_ERROR_DROP;
  if (f.se.rt.world_rank == 0) TRI_TRY_DONE(print_result(&x, q->json));
  if (f.se.rt.world_rank == 0) tri_eval_warn(&x, max_new);
  if (q->output && f.se.rt.world_rank == 0) TRI_TRY_DONE(write_output(q->output, &f, data, set, &r));
done:
  tri_rollout_free(&r);
  tri_reward_set_close(&set);
  tri_dataset_close(&data);
  tri_infer_leave(&f, st);
  return st;
}

/* Chosen: FIELDS is several times the number of fields of all rewards. FLAGS holds them and the command's own
 * 15 flags. FLAG_BYTES is the width of a screen, and HELP_BYTES holds two lines of help. */
enum { FIELDS = 16, FLAGS = 40, FLAG_BYTES = 80, HELP_BYTES = 300, WORDS_BYTES = 4096 };
/* One flag for each field of a reward, such as --pattern. Rewards with a field of the same name share its
 * flag. */
typedef struct fields {
  int         n;
  bool        list[FIELDS];
  const char *name[FIELDS], *value[FIELDS];
  char        words[WORDS_BYTES]; /* the words of a list field, one after another, each with a NUL */
  char        flag[FIELDS][FLAG_BYTES], help[FIELDS][HELP_BYTES];
} fields;

static void add_field(fields *x, const tri_reward *kind, const tri_reward_field *f, tri_flag *flag,
                      int *n_flag) {
  int i = 0;

  while (i < x->n && strcmp(x->name[i], f->name) != 0) i++;
  if (i < x->n) {
    size_t used = strlen(x->help[i]);
    bool   same = !strncmp(x->help[i], f->what, strlen(f->what));
    used += (size_t)snprintf(x->help[i] + used, HELP_BYTES - used, "%s%s%s%s", same ? ", " : "; ",
                             same ? "" : f->what, same ? "" : ", with ", kind->name);
    TRI_ASSERT(used < HELP_BYTES);
    return;
  }
  TRI_ASSERT(i < FIELDS && *n_flag < FLAGS);
  x->n++;
  x->name[i] = f->name;
  x->list[i] = f->list;
  TRI_ASSERT(snprintf(x->flag[i], FLAG_BYTES, "--%s", f->name) < FLAG_BYTES);
  for (char *c = x->flag[i]; *c; c++) *c = *c == '_' ? '-' : *c;
  TRI_ASSERT(snprintf(x->help[i], HELP_BYTES, "%s, with --reward %s", f->what, kind->name) < HELP_BYTES);
  flag[(*n_flag)++] = (tri_flag){x->flag[i], TRI_FLAG_TEXT, &x->value[i], 0, 0, f->value, x->help[i]};
}

static void add_fields(fields *x, tri_flag *flag, int *n_flag) {
  const tri_reward *kind;

  for (int i = 0; (kind = tri_reward_at(i)) != NULL; i++)
    for (const tri_reward_field *f = kind->needs & TRI_REWARD_COLLECTIVE ? NULL : kind->field; f && f->name;
         f++)
      add_field(x, kind, f, flag, n_flag);
}

/* Splits a flag's value at spaces into a list of words. */
static tri_status split(const char *text, char words[WORDS_BYTES], int *n_more) {
  size_t used = 0;

  for (*n_more = -1; *(text += strspn(text, " ")); ++*n_more) {
    size_t n = strcspn(text, " ");
    if (used + n + 1 > WORDS_BYTES)
      TRI_FAIL(TRI_EARG, "%.40s ...: longer than %d bytes", words, WORDS_BYTES - 1);
    memcpy(words + used, text, n);
    words[used + n] = 0;
    used += n + 1;
    text += n;
  }
  if (*n_more < 0) words[ *n_more = 0] = 0;
  return TRI_OK;
}

/* Makes a deck's row of the tri_eval_request's reward. An empty value counts as a flag that was not given. */
static tri_status make_row(const tri_eval_request *q, fields *x, tri_reward_opt *o) {
  tri_reward_env env = {.longest = q->max_new, .longest_key = "--max-new"};

  *o = (tri_reward_opt){.name = q->reward, .weight = 1};
  for (int i = 0; i < x->n; i++) {
    if (!x->value[i] || !x->value[i][0]) continue;
    if (o->n_field == TRI_REWARD_FIELDS)
      TRI_FAIL(TRI_EARG, "--%s gives the reward too many fields", x->name[i]);
    o->field[o->n_field].name = x->name[i];
    o->field[o->n_field].value = x->list[i] ? x->words : x->value[i];
    if (x->list[i]) TRI_TRY(split(x->value[i], x->words, &o->field[o->n_field].n_more));
    o->n_field++;
  }
  return tri_reward_check_flags(o, &env);
}

/* Writes the command's flags into flag [FLAGS] and returns their number. reward_help is the help of
 * --reward. */
static int list_flags(tri_eval_request *q, fields *x, const char *reward_help, tri_flag *flag) {
  const tri_flag data[] = {
      {"--data", TRI_FLAG_TEXT, &q->data, 0, 0, "F.jsonl",
       "prompts and right answers (default the run's data.eval). A model without a run needs this flag"},
      {"--reward", TRI_FLAG_TEXT, &q->reward, 0, 0, "R", reward_help},
      {"--prompt-key", TRI_FLAG_TEXT, &q->prompt_key, 0, 0, "K",
       "field of the prompt in a line, or a path such as extra.question (default the run's, else prompt)"},
      {"--answer-key", TRI_FLAG_TEXT, &q->answer_key, 0, 0, "K",
       "field or path of the right answer, for verl files reward_model.ground_truth (default the run's, "
       "else answer)"},
      TRI_INFER_CONVERSATION_FLAGS(q->conversation)};
  const tri_flag answers[] = {
      {"--max-new", TRI_FLAG_I64, &q->max_new, 1, 1e9, "N",
       "most tokens of an answer (default the run's, else 128 or the rest of the context)"},
      {"--max-prompts", TRI_FLAG_I64, &q->max_prompts, 0, 1e9, "N",
       "use the first N lines, 0 for all (default the run's, else 0)"},
      {"--temperature", TRI_FLAG_F64_OR_0, &q->temperature, 1e-4, 1e6, "T",
       "divide the logits by T, 0 is greedy (default the run's, else 0)"},
      {"--top-k", TRI_FLAG_I64, &q->top_k, 0, 1e9, "K",
       "sample among the K likeliest tokens, 0 for all (default 0)"},
      {"--top-p", TRI_FLAG_F64, &q->top_p, 1e-9, 1, "P",
       "sample among the likeliest tokens up to probability P (default 1)"},
      {"--num", TRI_FLAG_I64, &q->num, 1, 1e6, "N",
       "answers per prompt, the k of pass@k, best@k and majority@k (default the run's, else 1)"},
      {"--seed", TRI_FLAG_I64, &q->seed, 0, 9.2e18, "S",
       "seed of the random numbers (default the run's, else 42)"},
      {"--dtype", TRI_FLAG_WORD, &q->dtype, 0, 0, "f32|bf16|fp16",
       "type the model computes in (default the run's, or that of the model's files)"},
      TRI_INFER_BASE(&q->base),
      TRI_INFER_THREADS(&q->threads),
      TRI_INFER_TENSOR(&q->tensor, TRI_INFER_TENSOR_GENERATES(
                                       "the run's, or its largest divisor that divides the ranks of a "
                                       "node, else 1")),
      {"--output", TRI_FLAG_TEXT, &q->output, 0, 0, "F.jsonl",
       "write each answer with its rewards to a new file, which `trireme show F.jsonl` shows"},
      {"--json", TRI_FLAG_BOOL, &q->json, 0, 0, NULL, "print one JSON object"}};
  int n = sizeof data / sizeof *data;

  memcpy(flag, data, sizeof data);
  add_fields(x, flag, &n);
  TRI_ASSERT(n + (int)(sizeof answers / sizeof *answers) <= FLAGS);
  memcpy(flag + n, answers, sizeof answers);
  return n + (int)(sizeof answers / sizeof *answers);
}

/* Sets the command's defaults for a model without a run, in place of the values a run's deck would give. */
static void settle(tri_eval_request *q) {
  if (q->num == TRI_EVAL_NOT_GIVEN) q->num = 1;
  if (q->seed == TRI_EVAL_NOT_GIVEN) q->seed = 42;
  if (q->top_k == TRI_EVAL_NOT_GIVEN) q->top_k = 0;
  if (q->max_prompts == TRI_EVAL_NOT_GIVEN) q->max_prompts = 0;
  if (q->temperature < 0) q->temperature = 0;
  if (q->top_p < 0) q->top_p = 1;
}

static tri_status check_fields(const tri_eval_request *q, const fields *x) {
  for (int i = 0; i < x->n && !q->reward; i++)
    if (x->value[i] && x->value[i][0])
      TRI_FAIL(TRI_EARG, "%s is a field of a reward. Give --reward R too, which replaces the run's rewards",
               x->flag[i]);
  return TRI_OK;
}

static tri_status eval(int argc, char **argv, int *code) {
  tri_eval_request q = {.num = TRI_EVAL_NOT_GIVEN,
                        .seed = TRI_EVAL_NOT_GIVEN,
                        .top_k = TRI_EVAL_NOT_GIVEN,
                        .max_prompts = TRI_EVAL_NOT_GIVEN,
                        .temperature = TRI_EVAL_NOT_GIVEN,
                        .top_p = TRI_EVAL_NOT_GIVEN};
  fields           x = {0};
  tri_eval_run     of = {.found = false};
  tri_reward_opt   row;
  char             names[TRI_REWARD_NAMES_BYTES],
      reward_help[sizeof names + sizeof " (default the run's rewards). model works in a deck only"];
  tri_flag   flag[FLAGS];
  int        n, n_flag;
  tri_status st = TRI_OK;

  (void)code;
  tri_reward_names(" or ", names);
  snprintf(reward_help, sizeof reward_help, "%s (default the run's rewards). model works in a deck only",
           names);
  n_flag = list_flags(&q, &x, reward_help, flag);
  TRI_TRY(tri_flags_parse(&tri_command_eval, flag, n_flag, argc, argv, &n, &q.help));
  if (q.help) return TRI_OK;
  TRI_TRY(check_fields(&q, &x));
  if (n > 0) TRI_TRY_DONE(tri_eval_find_run(argv[0], &q, &of));
  if (n > 0 && !of.folder[0]) TRI_TRY_DONE(tri_source_check_output(argv[0]));
  const tri_need need[] = {
      {"MODEL", n > 0}, {"--data F.jsonl", q.data || of.found}, {"--reward R", q.reward || of.found}};
  TRI_TRY_DONE(tri_flags_need(&tri_command_eval, need, 3, n > 1 ? argv[1] : NULL));
  if (q.reward) TRI_TRY_DONE(make_row(&q, &x, &row));
  if (!of.found) settle(&q);
  st = of.found ? tri_eval_of_run(argv[0], &q, q.reward ? &row : NULL, &of) : run(argv[0], &q, &row);
done:
  tri_config_free(&of.cfg);
  return st;
}

const tri_command tri_command_eval = {
    "eval", "MODEL [--data F.jsonl] [--reward R] [flags]",
    "evaluate a run by its deck, or any model on prompts with right answers (mean reward, pass@k, best@k, "
    "majority@k, length)",
    eval};
