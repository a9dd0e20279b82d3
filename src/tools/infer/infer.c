/* infer.c - the common parts of generate, score and eval: a session, a model without training state, its
 * sampler. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer.h"

#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "generate/by_need.h"
#include "generate/fit.h"
#include "io/model/template.h"
#include "model/kv.h"

#include <string.h>
#include <time.h>

enum { MOST_NEW = 128 }; /* chosen: default length of an answer */

/* Chosen: models share no step, and may work for hours after others are done. These commands have no flag for
 * the timeout. A rank that dies or hangs is still named within seconds. */
static const double late_s = 86400;

/* Writes today's date in local time. */
static void put_today(char out[16]) {
  time_t    now = time(NULL);
  struct tm day;

  localtime_r(&now, &day);
  strftime(out, 16, "%Y-%m-%d", &day);
}

static tri_status check_base(const tri_source *s, const char *base) {
  if (tri_source_lora(s)->rank) return TRI_OK;
  TRI_FAIL(TRI_EINPUT, "%s: has no adapters, so --base %s has no use. Leave it out", tri_source_name(s),
           base);
}

/* Tells whether the folder holds only adapters, as PEFT writes them. */
static bool is_adapters(const char *folder) {
  return tri_file_in(folder, "adapter_config.json") && !tri_file_in(folder, "config.json") &&
         !tri_file_in(folder, "MANIFEST.json");
}

/* Collective over world. Opens a model folder, a checkpoint, or the adapters in a PEFT folder with `base`. */
static tri_status open_model(const char *path, const char *base, tri_comm *world, tri_source **out) {
  char under[TRI_CKPT_PATH_BYTES];
  bool adapters = base && is_adapters(path);

  TRI_TRY(tri_host_bcast(world, &adapters, sizeof adapters, 0));
  if (!adapters) return tri_agree(world, tri_source_open_over(path, TRI_PART_MAIN, base, NULL, true, out));
  TRI_TRY(tri_source_resolve(base, world, under));
  TRI_TRY(tri_agree(world, tri_source_open(under, NULL, true, out)));
  return tri_agree(world, tri_source_add_adapters(*out, path, world->rank == 0, 0));
}

tri_status tri_infer_open(const char *model, const char *base, bool any, int64_t threads, int64_t tensor,
                          tri_infer *out) {
  tri_session_opt opt = {.device = "auto",
                         .threads = (int)threads,
                         .timeout_s = late_s,
                         .threads_name = "--threads",
                         .tensor = (int)tensor,
                         .tensor_name = TRI_INFER_TENSOR_NAME};
  char            path[TRI_CKPT_PATH_BYTES];

  TRI_TRY(tri_session_open(&opt, &out->se));
  tri_session_say_threads(&out->se);
  TRI_TRY(tri_source_resolve(model, out->se.comm[TRI_WORLD], path));
  TRI_TRY(open_model(path, base, out->se.comm[TRI_WORLD], &out->source));
  if (base) TRI_TRY(tri_agree(out->se.comm[TRI_WORLD], check_base(out->source, base)));
  if (!any) TRI_TRY(tri_agree(out->se.comm[TRI_WORLD], tri_source_check_tokens(out->source)));
  out->encoder.tokenizer = tri_source_tokenizer(out->source);
  out->encoder.vocab = tri_source_shape(out->source)->V;
  put_today(out->today);
  return tri_host_bcast(out->se.comm[TRI_WORLD], out->today, sizeof out->today, 0);
}

/* Warns on rank 0 if the run was trained with data.apply_chat_template, but the command sends prompts as
 * plain text. Such a model answers plain prompts differently. The flags are not changed. */
static tri_status tell_of_turns(const tri_infer *f, const tri_infer_conversation *conversation) {
  bool applies = false;

  if (conversation->texts || !tri_source_checkpoint(f->source) || f->se.rt.world_rank != 0) return TRI_OK;
  TRI_TRY(tri_source_checkpoint_applies(tri_source_checkpoint(f->source), &applies));
  if (applies)
    tri_log(TRI_LOG_WARN,
            "the deck of this run sets data.apply_chat_template: true, but plain text prompts are sent "
            "unchanged here. --apply-chat-template makes them the user's message");
  return TRI_OK;
}

/* Not collective. Opens the chat template with the settings of the run's deck, since the model was trained
 * with them. Flags override them. */
static tri_status open_chat(tri_infer *f, const tri_infer_conversation *conversation, const char *today) {
  tri_source_conversation run = {.n_text = 0};
  tri_text                kwargs = {0};
  tri_chat_opt            opt;
  tri_status              st = TRI_OK;

  if (tri_source_checkpoint(f->source))
    TRI_TRY_DONE(tri_source_checkpoint_conversation(tri_source_checkpoint(f->source), &run));
  if (run.template && !strcmp(run.template, "none")) TRI_FREE(run.template);
  TRI_TRY_DONE(tri_chat_put_kwargs(run.kwargs, conversation->kwargs.item, conversation->kwargs.n,
                                   "--template-kwarg", &kwargs));
  opt = tri_source_conversation_opt(&run, false);
  opt.kwargs = kwargs.len ? kwargs.data : NULL;
  if (!opt.date) opt.date = today;
  if (conversation->tools) {
    opt.tools = conversation->tools;
    opt.tools_text = (tri_chat_bytes){NULL, 0};
  }
  opt.system_key = conversation->system ? "--system" : "data.system_prompt of the run";
  if (conversation->system) opt.system = conversation->system;
  if (conversation->template) {
    opt.template = conversation->template;
    opt.text = (tri_chat_bytes){NULL, 0};
    if (!tri_chat_is_word(conversation->template) && !tri_chat_is_file(conversation->template))
      TRI_FAIL_DONE(TRI_EARG, "--chat-template %s: must be one of " TRI_CHAT_WORDS " or FILE.jinja",
                    conversation->template);
  }
  TRI_TRY_DONE(tri_source_chat(f->source, &opt, &f->chat));
done:
  tri_text_free(&kwargs);
  tri_source_conversation_free(&run);
  return st;
}

/* For prompts on the command line. */
void tri_infer_say_plain(const tri_infer *f) {
  const char *key;

  if (f->se.rt.world_rank != 0 || f->texts || !tri_chat_system(f->chat, &key)) return;
  tri_log(TRI_LOG_WARN,
          "plain text prompts are sent unchanged and without %s. --apply-chat-template makes them the user's "
          "message",
          key);
}

tri_status tri_infer_chat(tri_infer *f, const tri_infer_conversation *conversation) {
  TRI_TRY(tell_of_turns(f, conversation));
  f->texts = conversation->texts;
  TRI_TRY(open_chat(f, conversation, f->today));
  if (conversation->kwargs.n && f->se.rt.world_rank == 0 && tri_chat_unread(f->chat))
    tri_log(TRI_LOG_WARN, "--template-kwarg: chat template %s reads no variable %s", tri_chat_name(f->chat),
            tri_chat_unread(f->chat));
  if (conversation->tools && f->se.rt.world_rank == 0 && !tri_chat_reads_tools(f->chat))
    tri_log(TRI_LOG_WARN, "--tools: chat template %s writes no tools", tri_chat_name(f->chat));
  return TRI_OK;
}

/* Warns if no token ends an answer before the length limit. */
static tri_status check_end(const tri_infer *f) {
  const tri_eos *eos = tri_source_eos(f->source);
  int32_t        end;

  if (!f->texts || f->se.rt.world_rank != 0) return TRI_OK;
  TRI_TRY(tri_template_end(f->chat, f->encoder.tokenizer, &end));
  for (int i = 0; i < eos->n; i++)
    if (eos->id[i] == end) return TRI_OK;
  if (end >= 0)
    tri_log(
        TRI_LOG_WARN,
        "%s: chat template %s ends a turn with token %d, but this model does not stop at that token. Add "
        "it to eos_token_id of generation_config.json (trireme export does so if the run's deck names the "
        "template)",
        tri_source_name(f->source), tri_chat_name(f->chat), end);
  else if (tri_chat_end(f->chat))
    tri_log(
        TRI_LOG_WARN,
        "%s: chat template %s ends a turn with %s, but the tokenizer has no such token, so no answer ends "
        "there. Name another template with --chat-template",
        tri_source_name(f->source), tri_chat_name(f->chat), tri_chat_end(f->chat));
  return TRI_OK;
}

void tri_infer_warn_greedy(int64_t num, double temperature) {
  if (num > 1 && temperature == 0)
    tri_log(
        TRI_LOG_WARN,
        "the %lld answers to a prompt are all the same at temperature 0. Give --temperature T above 0, or "
        "--num 1",
        (long long)num);
}

tri_data_opt tri_infer_data(tri_infer *f, tri_data_kind kind) {
  return (tri_data_opt){.kind = kind,
                        .overlong_prompt = TRI_OVERLONG_ERROR,
                        .overlong = TRI_OVERLONG_ERROR,
                        .max_prompt_name = "the model's context less the longest answer (--max-new)",
                        .max_total_tokens =
                            tri_data_is_prompts(kind) ? 0 : tri_source_shape(f->source)->max_pos,
                        .max_total_name = "the model's max_position_embeddings",
                        .vocab = tri_source_shape(f->source)->V,
                        .model = tri_source_name(f->source),
                        .end.completion = tri_source_text_end(f->source),
                        .end.text = -1,
                        .encode = f->encoder.tokenizer ? tri_encoder_run : NULL,
                        .encode_places = f->encoder.tokenizer ? tri_encoder_run_places : NULL,
                        .end.spells = tri_encoder_spells,
                        .ctx = &f->encoder,
                        .chat = {f->chat, false, f->texts, NULL}};
}

tri_status tri_infer_space(const tri_infer *f, int64_t longest, int64_t asked, int64_t *max_new) {
  int64_t context = tri_source_shape(f->source)->max_pos, left = context - longest;

  if (left < 1 || asked > left)
    TRI_FAIL(TRI_EINPUT,
             "the longest prompt has %lld tokens and leaves %lld of the model's context of %lld%s",
             (long long)longest, (long long)(left > 0 ? left : 0), (long long)context,
             asked ? ", less than --max-new" : " for an answer");
  *max_new = asked ? asked : left < MOST_NEW ? left : MOST_NEW;
  return TRI_OK;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Chooses the factors of longrope. A checkpoint takes those of its run, another model those for the longest
 * sequence here. Rank 0 warns if transformers could choose other factors for single sequences. */
static tri_status choose_factors(const tri_infer *f, int64_t longest, bool *is_long) {
  const tri_model_shape *shape = tri_source_shape(f->source);
  tri_ckpt_reader       *r = tri_source_checkpoint(f->source);
  tri_rope_factors       which = TRI_FACTORS_AUTO;
  int64_t                original = shape->rope[TRI_GLOBAL].original_max_pos;

  *is_long = false;
  if (shape->rope[TRI_GLOBAL].type != TRI_ROPE_LONG) return TRI_OK;
  if (r) TRI_TRY(tri_source_checkpoint_factors(r, &which));
  *is_long = tri_rope_is_long(shape, which, longest);
  if (f->se.rt.world_rank != 0 || (!*is_long && longest <= original)) return TRI_OK;
  tri_log(
      TRI_LOG_WARN,
      "every sequence uses the model's %s_factor%s, since the longest can have %lld tokens "
      "(original_max_position_embeddings %lld). transformers may use another factor for a single sequence",
      *is_long ? "long" : "short",
      which == TRI_FACTORS_AUTO ? "" : ", as in the checkpoint's run (model.rope_factors)",
      (long long)longest, (long long)original);
  return TRI_OK;
}

/* Collective over world. Opens the sampler with at most so many rows. Its cache has pages for the full length
 * of every row, or as many as the plan leaves memory for. */
static tri_status open_sampler(tri_infer *f, const tri_infer_size *size, tri_dtype dtype, int64_t rows,
                               int64_t prefill) {
  tri_session    *se = &f->se;
  tri_model_shape shape = tri_model_cache_shape(f->model);
  int64_t         state = (int64_t)tri_kv_state_bytes(&shape, dtype), full, pages,
          least = tri_sampler_least_pages(size->max_prompt, size->max_new);
  tri_sampler_opt so = {.max_prompt = size->max_prompt, .max_new = size->max_new, .max_prefill = prefill};

  TRI_TRY(tri_sampler_fit_rows(se, state, &rows));
  so.max_sequences = (int)rows;
  pages = full = tri_sampler_full_pages(rows, size->max_prompt, size->max_new);
  TRI_TRY(tri_sampler_fit_pages(se, tri_sampler_states(&shape, rows) * state,
                                tri_sampler_page_bytes(&shape, dtype), &pages));
  if (pages < full && least < full) {
    so.max_pages = larger(pages, least);
    so.max_prefill = larger(prefill, size->max_prompt + size->max_new);
  }
  return tri_sampler_open(se->device, se->ledger, f->model, dtype, &so, &f->sampler);
}

tri_status tri_infer_ready(tri_infer *f, const tri_infer_size *size) {
  tri_session  *se = &f->se;
  tri_comm     *world = se->comm[TRI_WORLD];
  int64_t       models = world->size / se->place.tensor;
  int64_t       decode = (size->n_answers + models - 1) / models, prefill, longest;
  tri_dtype     dtype = size->dtype ? tri_dtype_named(size->dtype) : TRI_BF16;
  bool          scored = tri_source_shape(f->source)->scored;
  unsigned      reads = scored ? TRI_LOSS_VALUE | TRI_LOSS_LAST : 0;
  tri_model_opt mo = {.shape = tri_source_shape(f->source),
                      .head = scored ? TRI_HEAD_SCALAR : TRI_HEAD_TOKENS,
                      .place = se->place,
                      .tensor_name = se->tensor_name,
                      .lora = *tri_source_lora(f->source),
                      .rollout = size->n_answers > 0,
                      .label = "model"};

  if (se->place.tensor > 1) mo.plan = (tri_shard_plan){TRI_SHARD_NODE, TRI_SHARD_NODE, TRI_SHARD_NODE};
  if (size->n_answers) TRI_TRY(tri_agree(world, check_end(f)));
  if (!size->dtype) TRI_TRY(tri_agree(world, tri_source_dtype(f->source, &dtype)));
  mo.dtype = dtype;
  decode = tri_sampler_most(se->device, decode);
  prefill = tri_sampler_prefill(decode, size->max_prompt);
  mo.max_held_tokens = larger(prefill, decode);
  if (decode) /* prefilled again */
    mo.max_held_tokens = larger(mo.max_held_tokens, size->max_prompt + size->max_new);
  mo.max_tokens = larger(size->max_score, mo.max_held_tokens);
  mo.max_rows = larger(size->max_score, decode);
  mo.max_positions = larger(size->max_score, size->max_prompt + size->max_new);
  longest = larger(size->longest_score, size->max_prompt + size->max_new);
  TRI_TRY(tri_agree(world, choose_factors(f, longest, &mo.rope_long)));
  TRI_TRY(tri_model_open(se->device, se->comm, se->ledger, &mo, &f->model));
  if (size->max_score)
    TRI_TRY(tri_staging_open(se->device, se->ledger,
                             &(tri_staging_opt){size->max_score, size->max_score, reads, TRI_PHASE_LEARN},
                             &f->staging));
  if (decode) TRI_TRY(open_sampler(f, size, dtype, decode, prefill));
  TRI_TRY(tri_session_take_memory(se));
  TRI_TRY(tri_model_start(f->model, se->stream));
  if (mo.lora.rank)
    return tri_source_load_lora(f->source, "/model", tri_model_params(f->model), tri_model_trained(f->model),
                                world, se->stream);
  return tri_source_load(f->source, "/model", tri_model_params(f->model), world, se->stream);
}

static tri_status open_answers(tri_infer *f, tri_reward_set *set, const tri_example *const *example, int n,
                               int group, tri_answers **out) {
  const tri_answers_opt o = {.set = set,
                             .tokenizer = f->encoder.tokenizer,
                             .model = tri_source_name(f->source),
                             .example = example,
                             .n = n * group,
                             .group = group,
                             .end = tri_source_eos(f->source)->id,
                             .n_end = tri_source_eos(f->source)->n};

  return set ? tri_answers_open(&o, out) : TRI_OK;
}

tri_status tri_infer_generate(tri_infer *f, const tri_prompt *prompt, int n, const tri_generate_opt *opt,
                              tri_reward_set *set, const tri_example *const *example, tri_rollout *out) {
  tri_comm        *world = f->se.comm[TRI_WORLD];
  tri_generate_opt how = *opt;
  tri_answers     *answers = NULL; /* stays NULL without rewards */
  tri_rollout      mine = {0};
  tri_status       st = TRI_OK;

  TRI_TRY_DONE(tri_agree(world, open_answers(f, set, example, n, opt->group, &answers)));
  how.finished = set ? tri_answers_put : NULL;
  how.finished_ctx = answers;
  TRI_TRY_DONE(tri_generate_by_need(f->sampler, world, prompt, n, &how, f->se.stream, &mine));
  if (set) TRI_TRY_DONE(tri_answers_collect(answers, &mine, world));
  TRI_TRY_DONE(tri_rollout_exchange(&mine, world, out));
done:
  tri_answers_close(&answers);
  tri_rollout_free(&mine);
  return st;
}

void tri_infer_leave(tri_infer *f, tri_status st) {
  tri_sampler_close(&f->sampler);
  tri_staging_close(&f->staging);
  tri_model_close(&f->model);
  tri_chat_close(&f->chat);
  tri_source_close(&f->source);
  tri_encoder_free(&f->encoder);
  tri_session_leave(&f->se, st);
}
