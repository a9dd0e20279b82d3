/* command_generate.c - trireme generate MODEL [PROMPT ...]: answers prompts. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "base/print.h"
#include "base/visible.h"
#include "commands.h"
#include "tools/infer/infer.h"
#include "io/data/rollout_file.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct request {
  const char            *prompts, *prompt_key, *dtype, *base;
  int64_t                max_new, top_k, num, seed, threads, tensor;
  double                 temperature, top_p;
  bool                   json, help;
  tri_infer_conversation conversation;
  char                 **text; /* prompts on the command line [n_text] */
  int                    n_text;
} request;

/* The prompts as tokens. They are the lines of a file (`data`), or the texts of the command line. Text i has
 * the tokens first[i] to first[i+1] - 1 of `tokens`. */
typedef struct input {
  tri_dataset *data;
  tri_tokens   tokens;
  int64_t     *first;
  tri_prompt  *prompt;
  int          n;
  int64_t      longest, max_new; /* tokens */
} input;

static tri_status check_ids(const tri_infer *f, const int32_t *id, int64_t n) {
  int V = tri_source_shape(f->source)->V;

  for (int64_t i = 0; i < n; i++)
    if (id[i] >= V)
      TRI_FAIL(
          TRI_EINPUT,
          "the tokenizer gives a prompt token %d, but the model's vocabulary is 0 .. %d. Use the tokenizer "
          "of this model",
          id[i], V - 1);
  return TRI_OK;
}

/* Tokenizes a prompt as plain text, or as the user's message of a conversation (f->texts). */
static tri_status read_text(tri_infer *f, const char *text, tri_tokens *out) {
  tri_chat_text  conversation = {.n_turn = 0};
  tri_status     st = TRI_OK;
  const int32_t *id;
  int64_t        n;

  if (f->texts) {
    TRI_TRY_DONE(tri_chat_write_text(f->chat, text, &conversation));
    TRI_TRY_DONE(tri_encoder_run(&f->encoder, conversation.text.len ? conversation.text.data : "",
                                 conversation.text.len, false, &id, &n));
  } else {
    TRI_TRY_DONE(tri_encoder_run(&f->encoder, text, strlen(text), true, &id, &n));
  }
  TRI_TRY_DONE(check_ids(f, id, n));
  TRI_TRY_DONE(tri_tokens_put(out, id, n));
done:
  tri_chat_text_free(&conversation);
  return st;
}

/* Tells whether a text is a JSON list of messages, as a line of a prompt file may have it. */
static bool is_conversation(const char *text) {
  json_t *list = text[strspn(text, " \t\r\n")] == '[' ? json_loads(text, 0, NULL) : NULL;
  bool    is = json_is_string(json_object_get(json_array_get(list, 0), "role"));

  json_decref(list);
  return is;
}

/* Rank 0 warns. */
static void warn_of_conversation(const tri_infer *f, const request *q) {
  for (int i = 0; i < q->n_text && f->se.rt.world_rank == 0; i++) {
    if (!is_conversation(q->text[i])) continue;
    tri_log(TRI_LOG_WARN,
            "prompt %d is a list of messages but is read as plain text. To send a conversation, write "
            "{\"prompt\": [...]} in a file and give --prompts F.jsonl",
            i + 1);
    return;
  }
}

static tri_status read_texts(tri_infer *f, const request *q, input *in) {
  char cure[TRI_TOKENIZER_CURE_BYTES];

  if (!f->encoder.tokenizer)
    TRI_FAIL(TRI_EINPUT,
             "%s: the model has no tokenizer.json.\n  %s\n  Or give --prompts with \"tokens\" lines.",
             tri_source_name(f->source), tri_tokenizer_cure(tri_source_name(f->source), cure));
  tri_infer_say_plain(f);
  warn_of_conversation(f, q);
  in->n = q->n_text;
  TRI_TRY(TRI_ALLOC(in->first, in->n + 1));
  TRI_TRY(TRI_ALLOC(in->prompt, in->n));
  for (int i = 0; i < in->n; i++) {
    TRI_TRY(read_text(f, q->text[i], &in->tokens));
    in->first[i + 1] = in->tokens.n;
    if (in->first[i + 1] == in->first[i])
      TRI_FAIL(TRI_EINPUT, "prompt %d is empty. Give it at least one token", i + 1);
  }
  for (int i = 0; i < in->n; i++)
    in->prompt[i] = (tri_prompt){i, in->tokens.id + in->first[i], (int)(in->first[i + 1] - in->first[i])};
  return TRI_OK;
}

static tri_status read_file(tri_infer *f, const request *q, input *in) {
  static const char *const flags[] = {"--prompt-key", NULL};

  tri_data_opt opt = tri_infer_data(f, TRI_DATA_PROMPTS);

  opt.flags = flags;
  opt.prompt_key = q->prompt_key;
  opt.max_prompt_tokens = tri_source_shape(f->source)->max_pos - 1;
  TRI_TRY(tri_dataset_open(&q->prompts, 1, &opt, &in->data));
  if (f->se.rt.world_rank == 0) tri_dataset_say_conversation(in->data, f->chat, q->prompts);
  if (tri_dataset_count(in->data) > INT32_MAX / 2) TRI_FAIL(TRI_EINPUT, "%s: too many lines", q->prompts);
  in->n = (int)tri_dataset_count(in->data);
  TRI_TRY(TRI_ALLOC(in->prompt, in->n));
  for (int i = 0; i < in->n; i++) {
    const tri_example *e = tri_dataset_get(in->data, i);
    in->prompt[i] = (tri_prompt){e->id, e->token, e->n_token};
  }
  return TRI_OK;
}

static tri_status read_input(tri_infer *f, const request *q, input *in) {
  TRI_TRY(tri_infer_chat(f, &q->conversation));
  TRI_TRY(q->prompts ? read_file(f, q, in) : read_texts(f, q, in));
  if ((int64_t)in->n * q->num > INT32_MAX / 2)
    TRI_FAIL(TRI_EARG, "%d prompts x --num %lld are too many answers for one call", in->n, (long long)q->num);
  for (int i = 0; i < in->n; i++)
    if (in->prompt[i].n_token > in->longest) in->longest = in->prompt[i].n_token;
  return tri_infer_space(f, in->longest, q->max_new, &in->max_new);
}

static void free_input(input *in) {
  tri_dataset_close(&in->data);
  tri_tokens_free(&in->tokens);
  TRI_FREE(in->first);
  TRI_FREE(in->prompt);
}

static tri_status decode(const tri_tokenizer *tok, const tri_rollout *r, int i, tri_text *text,
                         tri_rollout_text *view) {
  const int32_t *token = r->token + r->start[i];
  int64_t        n = r->start[i + 1] - r->start[i];
  size_t         answer;

  text->len = 0;
  TRI_TRY(tri_answers_decode(tok, token, r->prompt_len[i], false, text));
  answer = text->len;
  TRI_TRY(tri_answers_decode(tok, token + r->prompt_len[i], n - r->prompt_len[i], true, text));
  *view = (tri_rollout_text){.prompt = text->data ? text->data : "",
                             .response = text->data ? text->data + answer : "",
                             .prompt_bytes = answer,
                             .response_bytes = text->len - answer};
  return TRI_OK;
}

/* Adds the right answer if the prompt's line has one. */
static void put_right_answer(const input *in, int64_t prompt_id, tri_rollout_text *view) {
  const tri_example *e = tri_dataset_find(in->data, prompt_id);

  if (!e) return;
  view->answer = e->answer;
  view->answer_bytes = e->answer_bytes;
  view->answer_is_json = e->answer_is_number;
}

/* Called on rank 0. Prints answer i as a line of text or of JSON. Without a tokenizer it prints token ids. It
 * does so too if the tokenizer cannot decode the answer within its bounds. */
static tri_status print_answer(const tri_infer *f, const request *q, const input *in, const tri_rollout *r,
                               int i, tri_text *out, tri_text *text) {
  const tri_tokenizer *tok = f->encoder.tokenizer;
  const int32_t       *token = r->token + r->start[i];
  int64_t              n = r->start[i + 1] - r->start[i];
  tri_rollout_text     view = {0};
  tri_status           st = tok ? decode(tok, r, i, text, &view) : TRI_OK;

  if (st == TRI_EINPUT) {
    tri_log(TRI_LOG_WARN, "answer %d cannot be decoded, so its tokens are printed: %s", i + 1,
            tri_error_message());
    tri_error_clear();
    tok = NULL;
    view = (tri_rollout_text){0};
  } else {
    TRI_TRY(st);
  }
  if (q->json) {
    put_right_answer(in, r->prompt_id[i], &view);
    TRI_TRY(tri_rollout_file_line(r, i, &(tri_rollout_form){0}, &view, out));
  } else if (tok) {
    TRI_TRY(tri_text_put(out, view.response, view.response_bytes));
  } else {
    for (int64_t k = r->prompt_len[i]; k < n; k++) TRI_TRY(tri_text_printf(out, "%d ", token[k]));
  }
  return tri_text_put(out, "\n", 1);
}

/* Prints the prompt in one line before its answers, if there are several prompts. */
static tri_status print_prompt(const tri_infer *f, const tri_rollout *r, int i, tri_text *out,
                               tri_text *text) {
  const int32_t *token = r->token + r->start[i];
  tri_status     st = TRI_EINPUT;
  char          *line = NULL;

  text->len = 0;
  if (f->encoder.tokenizer)
    st = tri_answers_decode(f->encoder.tokenizer, token, r->prompt_len[i], false, text);
  TRI_TRY(tri_text_printf(out, "prompt %d:", i / r->group + 1));
  if (st == TRI_EINPUT) { /* the tokens stand in for the text, as for an answer */
    tri_error_clear();
    for (int k = 0; k < r->prompt_len[i]; k++) TRI_TRY(tri_text_printf(out, " %d", token[k]));
    return tri_text_put(out, "\n", 1);
  }
  TRI_TRY(st);
  TRI_TRY(TRI_ALLOC(line, text->len * TRI_VISIBLE_MOST + 1));
  tri_visible(text->len ? text->data : "", text->len, "", line, text->len * TRI_VISIBLE_MOST + 1);
  st = tri_text_printf(out, " %s\n", line);
  TRI_FREE(line);
  return st;
}

static tri_status run(const char *model, const request *q) {
  tri_infer   f = {0};
  input       in = {0};
  tri_rollout r = {0};
  tri_text    out = {0}, text = {0};
  tri_status  st = TRI_OK;
  bool        names; /* A terminal shows each prompt. A script gets answers only. */

  TRI_TRY_DONE(tri_infer_open(model, q->base, false, q->threads, q->tensor, &f));
  if (f.se.rt.world_rank == 0) tri_infer_warn_greedy(q->num, q->temperature);
  TRI_TRY_DONE(tri_agree(f.se.comm[TRI_WORLD], read_input(&f, q, &in)));
  tri_infer_size   size = {q->dtype, (int64_t)in.n * q->num, in.longest, in.max_new, 0, 0};
  tri_generate_opt opt = {.rule = {(float)q->temperature, (float)q->top_p, (int)q->top_k, (uint64_t)q->seed},
                          .max_new = in.max_new,
                          .group = (int)q->num,
                          .eos = tri_source_eos(f.source)->id,
                          .n_eos = tri_source_eos(f.source)->n};
  TRI_TRY_DONE(tri_infer_ready(&f, &size));
  TRI_TRY_DONE(tri_infer_generate(&f, in.prompt, in.n, &opt, NULL, NULL, &r));
  names = in.n > 1 && !q->json && tri_print_is_terminal();
  for (int i = 0; f.se.rt.world_rank == 0 && i < r.n_seq; i++) {
    if (names && i % r.group == 0) TRI_TRY_DONE(print_prompt(&f, &r, i, &out, &text));
    TRI_TRY_DONE(print_answer(&f, q, &in, &r, i, &out, &text));
  }
  TRI_TRY_DONE(tri_print(out.data, out.len));
  fflush(stdout);
done:
  tri_text_free(&out);
  tri_text_free(&text);
  tri_rollout_free(&r);
  free_input(&in);
  tri_infer_leave(&f, st);
  return st;
}

static tri_status generate(int argc, char **argv, int *code) {
  request  q = {.num = 1, .seed = 42, .temperature = 1, .top_p = 1};
  tri_flag flag[] = {
      {"--prompts", TRI_FLAG_TEXT, &q.prompts, 0, 0, "F.jsonl", "read prompts from a file of JSON lines"},
      {"--prompt-key", TRI_FLAG_TEXT, &q.prompt_key, 0, 0, "K",
       "field of the prompt in its lines, or a path such as extra.question (default prompt)"},
      TRI_INFER_CONVERSATION_FLAGS(q.conversation),
      {"--max-new", TRI_FLAG_I64, &q.max_new, 1, 1e9, "N",
       "most tokens of an answer (default 128, or the rest of the context)"},
      {"--temperature", TRI_FLAG_F64_OR_0, &q.temperature, 1e-4, 1e6, "T",
       "divide the logits by T, 0 is greedy (default 1)"},
      {"--top-k", TRI_FLAG_I64, &q.top_k, 0, 1e9, "K",
       "sample among the K likeliest tokens, 0 for all (default 0)"},
      {"--top-p", TRI_FLAG_F64, &q.top_p, 1e-9, 1, "P",
       "sample among the likeliest tokens up to probability P (default 1)"},
      {"--num", TRI_FLAG_I64, &q.num, 1, 1e6, "N", "answers per prompt (default 1)"},
      {"--seed", TRI_FLAG_I64, &q.seed, 0, 9.2e18, "S", "seed of the random numbers (default 42)"},
      {"--dtype", TRI_FLAG_WORD, &q.dtype, 0, 0, "f32|bf16|fp16",
       "type the model computes in (default the run's, or that of the model's files)"},
      TRI_INFER_BASE(&q.base),
      TRI_INFER_THREADS(&q.threads),
      TRI_INFER_TENSOR(&q.tensor, TRI_INFER_TENSOR_GENERATES("1")),
      {"--json", TRI_FLAG_BOOL, &q.json, 0, 0, NULL,
       "print one JSON object per answer, with tokens and log-probabilities"}};
  int n;

  (void)code;
  TRI_TRY(tri_flags_parse(&tri_command_generate, flag, sizeof flag / sizeof *flag, argc, argv, &n, &q.help));
  if (q.help) return TRI_OK;
  const tri_need need[] = {{"MODEL", n > 0}, {"PROMPT or --prompts F.jsonl", n > 1 || q.prompts}};
  TRI_TRY(tri_flags_need(&tri_command_generate, need, 2, NULL));
  if (n > 1 && q.prompts)
    TRI_FAIL(TRI_EARG, "'%s' and --prompts %s: give prompts on the command line or in a file, not both",
             argv[1], q.prompts);
  if (q.conversation.tools && n > 1 && !q.conversation.texts)
    TRI_FAIL(
        TRI_EARG,
        "--tools %s: a plain text prompt has no tools. --apply-chat-template makes it the user's message",
        q.conversation.tools);
  q.text = argv + 1;
  q.n_text = n - 1;
  return run(argv[0], &q);
}

const tri_command tri_command_generate = {"generate", "MODEL [PROMPT ...] [flags]",
                                          "answer prompts with a model folder, a checkpoint or a run",
                                          generate};
