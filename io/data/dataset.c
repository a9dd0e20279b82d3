/* dataset.c - reads data files and makes examples of their lines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>
#include <string.h>

#include "base/host_memory.h"
#include "dataset_foreign.h"
#include "line_parser.h"
#include "dataset_parts.h"
#include "device/device.h"
#include "io/text/json_walk.h"

enum { ARENA_BYTES = 1 << 20 }; /* chosen: few allocations, little waste */

/* Copies n bytes into the arena, with a NUL behind them. */
static tri_status arena_put(tri_dataset *d, const void *from, size_t n, void *out) {
  size_t       need = (n + 1 + 7) / 8 * 8;
  arena_block *b = d->arena;
  char        *place;

  if (!b || b->cap - b->used < need) {
    size_t cap = need > ARENA_BYTES ? need : ARENA_BYTES;
    TRI_TRY(TRI_ALLOC(b, 1));
    b->next = d->arena;
    d->arena = b;
    TRI_TRY(tri_pages_alloc(cap, (void **)&b->data));
    b->cap = cap;
    d->held += (int64_t)cap;
  }
  place = b->data + b->used;
  if (n) memcpy(place, from, n);
  place[n] = 0;
  b->used += need;
  memcpy(out, &place, sizeof place);
  return TRI_OK;
}

/* Tells whether the deck or a flag gives a field this name. */
static bool is_named(const tri_line_parser *in, const char *field) {
  bool labelled = in->opt->kind == TRI_DATA_LABELLED;

  return !strcmp(field, in->prompt_key) || !strcmp(field, in->answer_key) ||
         !strcmp(field, in->completion_key) || (labelled && !strcmp(field, in->label_key));
}

/* Tells whether the answer is a number too large for 64 bits. */
static bool is_big_number(const tri_line_parser *in) {
  size_t      n;
  const char *raw = tri_jsonl_has_odd(in->r) ? tri_jsonl_raw(in->r, in->answer_key, &n) : NULL;
  const char *end = raw ? tri_json_skip_number(raw, raw + n) : NULL;

  return raw && end == raw + n;
}

/* Refuses fields with unreadable values if the kind would read them. A number as answer is taken as it is
 * written. */
static tri_status refuse_odd(tri_line_parser *in) {
  tri_data_kind kind = in->opt->kind;
  bool          prompts = tri_data_is_prompts(kind), pairs = kind == TRI_DATA_PAIRS;
  bool          has_prompt = json_object_get(in->object, in->prompt_key) != NULL;
  bool          conversations =
      in->opt->chat.texts || !has_prompt || tri_line_parser_is_conversation(in, in->prompt_key, NULL);
  const struct {
    const char *key;
    bool        read;
  } row[] = {{in->prompt_key, true},
             {in->completion_key, !prompts && !pairs},
             {in->chosen_key, pairs},
             {in->rejected_key, pairs},
             {in->margin_key, pairs},
             {in->label_key, kind == TRI_DATA_LABELLED},
             {in->answer_key, prompts && !is_big_number(in)},
             {"chosen_tokens", pairs},
             {"rejected_tokens", pairs},
             {"tokens", !pairs},
             {"prompt_tokens", true},
             {"text", kind == TRI_DATA_SFT || kind == TRI_DATA_SCORE},
             {"messages", !pairs && !(prompts && has_prompt)},
             {tri_line_parser_tools_key(in), conversations},
             {"chat_template_kwargs", conversations}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (row[i].read) TRI_TRY(tri_jsonl_refuse_odd(in->r, row[i].key));
  return TRI_OK;
}

/* Makes values reached by the path of a key available under the whole key. */
static tri_status name_paths(tri_line_parser *in) {
  const char *const key[] = {
      in->prompt_key,   in->answer_key, in->completion_key, in->chosen_key,
      in->rejected_key, in->label_key,  in->margin_key,     tri_line_parser_tools_key(in)};

  for (size_t i = 0; i < sizeof key / sizeof *key; i++) TRI_TRY(tri_jsonl_name_path(in->r, key[i]));
  return tri_jsonl_has_odd(in->r) ? refuse_odd(in) : TRI_OK;
}

static tri_status refuse_other_forms(const tri_line_parser *in) {
  static const char *const pair[] = {"chosen", "rejected"};
  bool                     is_pair = in->opt->kind == TRI_DATA_PAIRS;

  for (int i = 0; i < 2 && !is_pair && !is_named(in, pair[0]) && !is_named(in, pair[1]); i++)
    if (json_object_get(in->object, pair[i])) return tri_foreign_refuse_pair(in, pair[i]);
  return tri_foreign_check(in);
}

/* Reads the line into in->buffer, in->n_prompt and in->value. */
static tri_status take_line(tri_line_parser *in) {
  in->buffer[0].n = in->buffer[1].n = in->prompt.n = in->n_prompt = 0;
  in->value = 0;
  in->conversation.here = in->conversation.begun = in->conversation.system_left_out =
      in->conversation.tools_left_out = false;
  in->conversation.text_left_out = in->conversation.calls_left_out = in->conversation.endless = false;
  TRI_TRY(name_paths(in));
  in->joins = in->plain = false;
  TRI_TRY(refuse_other_forms(in));
  if (in->opt->kind == TRI_DATA_PAIRS) return tri_line_parser_take_pair(in);
  if (in->opt->kind == TRI_DATA_LABELLED)
    TRI_TRY(tri_line_parser_take_labelled(in));
  else if (json_object_get(in->object, "tokens"))
    TRI_TRY(tri_line_parser_take_tokens(in));
  else if (tri_data_is_prompts(in->opt->kind))
    TRI_TRY(tri_line_parser_take_prompt(in));
  else
    TRI_TRY(tri_line_parser_take_text(in));
  if (!in->buffer[0].n) TRI_FAIL_LINE(in, "%s", "has no tokens");
  if (!tri_data_is_learned(in->opt->kind)) return TRI_OK;
  return tri_line_parser_check_learned(in, &in->buffer[0], NULL);
}

static int n_sides(const tri_line_parser *in) { return in->opt->kind == TRI_DATA_PAIRS ? 2 : 1; }

/* Returns the tokens of the line, or of a pair's longer side. */
static int64_t line_tokens(const tri_line_parser *in) {
  return in->buffer[1].n > in->buffer[0].n ? in->buffer[1].n : in->buffer[0].n;
}

/* Notes a line over a limit. All such lines are counted before the error is reported. */
static void note_too_long(tri_line_parser *in, bool whole) {
  too_long *t = &in->d->too_long;
  int64_t   n_token = whole ? line_tokens(in) : in->n_prompt;

  if (!t->n) *t = (too_long){0, in->file, tri_jsonl_line(in->r), n_token, n_token, whole};
  if (whole == t->whole && n_token > t->longest) t->longest = n_token;
  t->n++;
}

static bool prompt_is_long(const tri_line_parser *in) {
  return in->opt->max_prompt_tokens > 0 && in->n_prompt > in->opt->max_prompt_tokens;
}
static bool line_is_long(const tri_line_parser *in) {
  return in->opt->max_total_tokens > 0 && !tri_data_is_prompts(in->opt->kind) &&
         line_tokens(in) > in->opt->max_total_tokens;
}

/* Keeps the last `most` tokens of the prompt. */
static void cut_prompt(tri_line_parser *in, int64_t most) {
  int64_t cut = in->n_prompt - most;

  for (tri_token_buffer *s = in->buffer; s < in->buffer + n_sides(in); s++) {
    memmove(s->id, s->id + cut, (size_t)(s->n - cut) * sizeof *s->id);
    memmove(s->skip, s->skip + cut, (size_t)(s->n - cut));
    s->n -= cut;
  }
  in->n_prompt = most;
}

/* Tells whether each side has a token to learn among its first `most`. */
static bool is_learned_within(const tri_line_parser *in, int64_t most) {
  for (const tri_token_buffer *s = in->buffer; s < in->buffer + n_sides(in); s++) {
    tri_token_buffer begin = *s;
    if (begin.n > most) begin.n = most;
    if (!tri_token_buffer_learned(&begin, in->n_prompt)) return false;
  }
  return true;
}

/* Returns how many tokens the prompt may keep. The rest is for its answer, at most half of the limit. */
static int64_t prompt_beside_answer(const tri_line_parser *in) {
  int64_t most = in->opt->max_total_tokens, answer = line_tokens(in) - in->n_prompt;
  int64_t space = answer < most / 2 ? answer : most / 2;

  return most - (space > 1 ? space : 1);
}

/* Keeps the beginning of a line. *keep is false if no token to learn would be left. */
static void truncate_line(tri_line_parser *in, bool *keep) {
  int64_t most = in->opt->max_total_tokens, beside = prompt_beside_answer(in);

  if (!is_learned_within(in, most) && in->opt->overlong_prompt == TRI_OVERLONG_TRUNCATE &&
      in->n_prompt > beside)
    cut_prompt(in, beside);
  for (tri_token_buffer *s = in->buffer; s < in->buffer + n_sides(in); s++)
    if (s->n > most) s->n = most;
  *keep = !tri_data_is_learned(in->opt->kind) || is_learned_within(in, most);
  in->d->stats.n_emptied += !*keep;
}

/* Applies this treatment. *keep tells whether the line stays. Returns whether it was cut. */
static bool is_cut(tri_line_parser *in, tri_overlong how, bool whole, bool *keep) {
  if (how == TRI_OVERLONG_ERROR) note_too_long(in, whole);
  *keep = how == TRI_OVERLONG_TRUNCATE;
  if (*keep && whole) truncate_line(in, keep);
  if (*keep && !whole) cut_prompt(in, in->opt->max_prompt_tokens);
  in->d->stats.n_dropped += !*keep && how != TRI_OVERLONG_ERROR;
  return *keep;
}

/* Applies the limits to the tokens of the line. */
static void limit_length(tri_line_parser *in, bool *keep) {
  const tri_data_opt *o = in->opt;
  tri_overlong        whole = o->overlong == TRI_OVERLONG_AS_PROMPT ? o->overlong_prompt : o->overlong;
  bool                cut = false;

  *keep = true;
  if (prompt_is_long(in)) cut = is_cut(in, o->overlong_prompt, false, keep);
  if (*keep && line_is_long(in)) cut = is_cut(in, whole, true, keep);
  in->cut = *keep && cut;
  in->d->stats.n_truncated += in->cut;
}

/* Copies the prompt's text and the answer of a line that is kept. */
static tri_status take_texts(tri_line_parser *in, tri_example *e) {
  const json_t *prompt = json_object_get(in->object, in->prompt_key);
  const json_t *answer = json_object_get(in->object, in->answer_key);
  const char   *text, *why = NULL;

  if (in->conversation.here) {
    e->prompt_bytes = in->conversation.text.text.len;
    TRI_TRY(arena_put(in->d, in->conversation.text.text.data, e->prompt_bytes, &e->prompt));
  } else if (json_is_string(prompt)) {
    e->prompt_bytes = json_string_length(prompt);
    TRI_TRY(arena_put(in->d, json_string_value(prompt), e->prompt_bytes, &e->prompt));
  }
  if (in->opt->kind == TRI_DATA_PROMPTS && (!answer || json_is_null(answer))) return TRI_OK;
  if (!answer) return tri_line_parser_refuse_missing(in, in->answer_key, "data.answer_key", "--answer-key");
  if (json_is_string(answer)) {
    text = json_string_value(answer);
    e->answer_bytes = json_string_length(answer);
  } else if (json_is_number(answer) || is_big_number(in)) {
    text = tri_jsonl_raw(in->r, in->answer_key, &e->answer_bytes);
    e->answer_is_number = true;
  } else {
    return tri_line_parser_refuse_answer(in, answer);
  }
  if (in->opt->refuse) why = in->opt->refuse(in->opt->refuse_ctx, text, e->answer_bytes);
  if (why) return tri_line_parser_refuse_truth(in, text, e->answer_bytes, why);
  return arena_put(in->d, text, e->answer_bytes, &e->answer);
}

static tri_status take_fields(tri_line_parser *in, tri_example *e) {
  static const char *const ours[] = {"id", "prompt", "response", NULL};
  tri_text                 all = {0};
  tri_status               st = tri_jsonl_put_members(in->r, ours, &all);

  e->fields_bytes = all.len;
  if (st == TRI_OK) st = arena_put(in->d, all.data, all.len, &e->fields);
  tri_text_free(&all);
  return st;
}

/* Copies the marks of tokens without loss, if some behind the prompt have none. */
static tri_status put_skip(tri_line_parser *in, const tri_token_buffer *buffer, const uint8_t **skip) {
  if (tri_token_buffer_learned(buffer, in->n_prompt) == buffer->n - tri_first_learned(in->n_prompt))
    return TRI_OK;
  return arena_put(in->d, buffer->skip, (size_t)buffer->n, skip);
}

static tri_status add_example(tri_line_parser *in, int64_t id) {
  const tri_token_buffer *kept = &in->buffer[0], *rejected = &in->buffer[1];
  tri_dataset            *d = in->d;
  tri_data_stats         *s = &d->stats;
  tri_example            *e;

  TRI_TRY(TRI_GROW(d->example, d->cap, d->n + 1));
  e = &d->example[d->n];
  *e = (tri_example){.id = id,
                     .file = in->file,
                     .n_token = (int)kept->n,
                     .n_rejected = (int)rejected->n,
                     .n_prompt = (int)in->n_prompt,
                     .value = in->value,
                     .cut = in->cut};
  if (tri_data_is_prompts(in->opt->kind)) TRI_TRY(take_texts(in, e));
  if (tri_data_is_prompts(in->opt->kind) && in->opt->keep_fields) TRI_TRY(take_fields(in, e));
  TRI_TRY(arena_put(d, kept->id, (size_t)kept->n * sizeof *kept->id, &e->token));
  if (rejected->n)
    TRI_TRY(arena_put(d, rejected->id, (size_t)rejected->n * sizeof *rejected->id, &e->rejected));
  d->n++;
  s->n_token += kept->n + rejected->n;
  for (int k = 0; k < n_sides(in) && !tri_data_is_prompts(in->opt->kind); k++) {
    TRI_TRY(put_skip(in, &in->buffer[k], k ? &e->rejected_skip : &e->skip));
    s->n_loss += tri_token_buffer_learned(&in->buffer[k], in->n_prompt);
  }
  s->n_plain += in->plain;
  s->n_joined += in->joins;
  s->n_conversation += in->conversation.here;
  s->n_begun += in->conversation.begun;
  s->n_system_left_out += in->conversation.system_left_out;
  s->n_tools_left_out += in->conversation.tools_left_out;
  s->n_text_left_out += in->conversation.text_left_out;
  s->n_calls_left_out += in->conversation.calls_left_out;
  s->n_endless += in->conversation.endless;
  if (e->n_prompt > s->longest_prompt) s->longest_prompt = e->n_prompt;
  if (line_tokens(in) > s->longest) s->longest = (int)line_tokens(in);
  if (line_tokens(in) - in->n_prompt > s->longest_answer)
    s->longest_answer = (int)(line_tokens(in) - in->n_prompt);
  return TRI_OK;
}

/* Reads the next line. *more is false at the end of the file. */
static tri_status next_line(tri_line_parser *in, bool *more) {
  bool keep;

  *more = true;
  in->model_lacks = false;
  TRI_TRY(tri_jsonl_next(in->r, &in->object));
  *more = in->object != NULL;
  if (!*more) return TRI_OK;
  TRI_TRY(take_line(in));
  limit_length(in, &keep);
  return keep ? add_example(in, in->d->stats.n_line + tri_jsonl_taken(in->r) - 1) : TRI_OK;
}

/* Reports only the first line of those that are bad because the model lacks something. */
static tri_status note_lack(tri_line_parser *in, tri_status st) {
  bool first = !in->said_lack, expected = in->opt->note.no_tokenizer && !in->opt->encode;

  in->said_lack = true;
  if (expected) *in->opt->note.no_tokenizer = true;
  if (first && !expected) return tri_error_note(st, in->opt->note.errors);
  tri_error_clear();
  return TRI_OK;
}

/* With opt->note.errors, notes a bad line if it was read to its end. */
static tri_status note_bad_line(tri_line_parser *in, tri_status st, int64_t taken_before) {
  if (st != TRI_EINPUT || !in->opt->note.errors || tri_jsonl_taken(in->r) == taken_before) return st;
  if (in->model_lacks) return note_lack(in, st);
  in->n_bad++;
  return tri_bad_lines_put(&in->bad, tri_jsonl_path(in->r));
}

/* Reports the bad lines, also if the file breaks off. The error of the break follows them. */
static tri_status tell_bad_lines(tri_line_parser *in, tri_status st) {
  tri_text   said = {0};
  tri_status told;

  if (!in->bad.n) return st;
  if (st != TRI_OK && tri_text_printf(&said, "%s", tri_error_message()) != TRI_OK) return st;
  told = tri_bad_lines_tell(&in->bad, tri_jsonl_path(in->r), in->opt->note.errors);
  if (st != TRI_OK) tri_error_set(st, said.data);
  tri_text_free(&said);
  return st != TRI_OK ? st : told;
}

/* Chosen: the host's memory is checked every 64 MiB, and a 32nd of it stays free. */
enum { ASKED_BYTES = 1 << 26, KEPT_SHARE = 32 };

/* Ends the reading when memory runs short, before the system kills this or another process. Packed files may
 * hold far more lines than their size suggests. */
static tri_status check_memory(tri_line_parser *in) {
  tri_dataset *d = in->d;
  int64_t      held = d->held + d->cap * (int64_t)sizeof *d->example, most = in->opt->most_bytes;
  size_t       bytes_free, bytes_total;

  if (most && held > most)
    TRI_FAIL(TRI_EINPUT, "%s:%lld: the examples up to here take %.1f MiB, but the limit is %.1f",
             tri_jsonl_path(in->r), (long long)tri_jsonl_line(in->r), (double)held / 0x1p20,
             (double)most / 0x1p20);
  if (most || held - d->asked < ASKED_BYTES) return TRI_OK;
  d->asked = held;
  if (tri_device_find(tri_device_host())->mem_info(NULL, &bytes_free, &bytes_total) != TRI_OK) {
    tri_error_clear();
    return TRI_OK;
  }
  if (bytes_free > bytes_total / KEPT_SHARE) return TRI_OK;
  TRI_FAIL(TRI_EINPUT,
           "%s:%lld: the examples up to here take %.2f GiB; the host has %.2f GiB of memory and %.2f "
           "are left. Use fewer lines, or more memory.",
           tri_jsonl_path(in->r), (long long)tri_jsonl_line(in->r), (double)held / 0x1p30,
           (double)bytes_total / 0x1p30, (double)bytes_free / 0x1p30);
}

static tri_status read_file(tri_line_parser *in, const char *path, int64_t begin, int64_t end) {
  tri_status st = TRI_OK;
  bool       more = true;

  TRI_TRY(tri_foreign_unopened(path, tri_jsonl_open_part(path, begin, end, &in->r)));
  if (in->opt->max_line_bytes) tri_jsonl_limit(in->r, in->opt->max_line_bytes, "data.max_line_bytes");
  for (;;) {
    int64_t before = tri_jsonl_taken(in->r);
    TRI_TRY_DONE(note_bad_line(in, next_line(in, &more), before));
    if (!more) break;
    TRI_TRY_DONE(check_memory(in));
  }
  in->d->stats.n_line += tri_jsonl_taken(in->r);
done:
  st = tell_bad_lines(in, st);
  tri_jsonl_close(&in->r);
  return st;
}

static tri_status refuse_too_long(const tri_dataset *d, const char *const *file, const tri_data_opt *opt) {
  const too_long *t = &d->too_long;
  const char     *prompt_name = opt->max_prompt_name ? opt->max_prompt_name : "data.max_prompt_length";

  TRI_FAIL(TRI_EINPUT,
           "%s:%lld: %s %lld tokens, but at most %lld are possible: %s%s. Too long are %lld of %lld "
           "lines, up to %lld tokens.",
           file[t->file], (long long)t->line, t->whole ? "has" : "its prompt has", (long long)t->n_token,
           (long long)(t->whole ? opt->max_total_tokens : opt->max_prompt_tokens),
           t->whole ? opt->max_total_name : prompt_name,
           !opt->from_deck ? ""
           : t->whole      ? " (data.overlong: drop or truncate)"
                           : " (data.overlong_prompt: drop or truncate)",
           (long long)t->n, (long long)d->stats.n_line, (long long)t->longest);
}

tri_status tri_dataset_read(const char *const *file, int n_file, const tri_data_opt *opt,
                            const tri_data_range *range, tri_dataset **out) {
  tri_status      st = TRI_OK;
  tri_line_parser in = {.opt = opt,
                        .files = file,
                        .n_files = n_file,
                        .prompt_key = opt->prompt_key ? opt->prompt_key : "prompt",
                        .answer_key = opt->answer_key ? opt->answer_key : "answer",
                        .completion_key = opt->completion_key ? opt->completion_key : "completion",
                        .chosen_key = opt->chosen_key ? opt->chosen_key : "chosen",
                        .rejected_key = opt->rejected_key ? opt->rejected_key : "rejected",
                        .label_key = opt->label_key ? opt->label_key : "label",
                        .margin_key = opt->margin_key ? opt->margin_key : "margin"};

  *out = NULL;
  TRI_ASSERT(n_file > 0 && opt->vocab > 0);
  TRI_ASSERT(opt->max_total_tokens <= 0 || opt->max_total_name);
  TRI_TRY_DONE(TRI_ALLOC(in.d, 1));
  TRI_TRY_DONE(tri_line_parser_find_ends(&in));
  for (in.file = 0; in.file < n_file; in.file++) {
    const tri_data_range *r = &range[in.file];
    if (r->begin < r->end) TRI_TRY_DONE(read_file(&in, file[in.file], r->begin, r->end));
  }
  if (in.n_bad && in.d->too_long.n) /* else tri_dataset_finish reports it for all parts */
    TRI_TRY_DONE(tri_error_note(refuse_too_long(in.d, file, opt), opt->note.errors));
done:
  for (int i = 0; i < 2; i++) {
    TRI_FREE(in.buffer[i].id);
    TRI_FREE(in.buffer[i].skip);
  }
  TRI_FREE(in.prompt.id);
  TRI_FREE(in.prompt.skip);
  tri_text_free(&in.joined);
  tri_conversation_free(&in.conversation);
  tri_bad_lines_forget(&in.bad);
  if (st != TRI_OK || in.n_bad || in.said_lack) tri_dataset_close(&in.d);
  *out = in.d;
  return st;
}

tri_status tri_dataset_finish(tri_dataset *d, const char *const *file, int n_file, const tri_data_opt *opt) {
  d->kind = opt->kind;
  if (d->too_long.n) return refuse_too_long(d, file, opt);
  if (!d->n && d->stats.n_emptied)
    TRI_FAIL(
        TRI_EINPUT,
        "%s%s: all examples are too long and were dropped, %lld in all. The prompts of %lld leave no token "
        "to learn within %lld, %s (data.overlong_prompt: truncate cuts prompts).",
        file[0], n_file > 1 ? " ..." : "", (long long)d->stats.n_dropped, (long long)d->stats.n_emptied,
        (long long)opt->max_total_tokens, opt->max_total_name);
  if (!d->n && d->stats.n_dropped)
    TRI_FAIL(TRI_EINPUT,
             "%s%s: all examples are too long and were dropped, %lld in all (data.overlong_prompt%s)",
             file[0], n_file > 1 ? " ..." : "", (long long)d->stats.n_dropped,
             tri_data_is_prompts(opt->kind) ? "" : ", data.overlong");
  if (!d->n) TRI_FAIL(TRI_EINPUT, "%s%s: has no lines", file[0], n_file > 1 ? " ..." : "");
  TRI_TRY(TRI_ALLOC(d->part, 1));
  d->part[0].n = d->n;
  d->n_part = 1;
  return TRI_ALLOC(d->order, d->n);
}

tri_status tri_dataset_open(const char *const *file, int n_file, const tri_data_opt *opt, tri_dataset **out) {
  tri_data_range *all = NULL;
  tri_status      st = TRI_OK;

  *out = NULL;
  TRI_TRY(TRI_ALLOC(all, n_file));
  for (int i = 0; i < n_file; i++) all[i] = (tri_data_range){0, INT64_MAX};
  TRI_TRY_DONE(tri_dataset_read(file, n_file, opt, all, out));
  if (*out) TRI_TRY_DONE(tri_dataset_finish(*out, file, n_file, opt));
done:
  TRI_FREE(all);
  if (st != TRI_OK) tri_dataset_close(out);
  return st;
}

void tri_dataset_close(tri_dataset **d) {
  if (!*d) return;
  for (arena_block *b = (*d)->arena, *next; b; b = next) {
    next = b->next;
    tri_pages_free((void **)&b->data);
    TRI_FREE(b);
  }
  TRI_FREE((*d)->shared);
  TRI_FREE((*d)->example);
  TRI_FREE((*d)->order);
  TRI_FREE((*d)->part);
  tri_mix_close(&(*d)->mix);
  TRI_FREE(*d);
}

tri_data_kind         tri_dataset_kind(const tri_dataset *d) { return d->kind; }
int64_t               tri_dataset_count(const tri_dataset *d) { return d->n; }
const tri_data_stats *tri_dataset_stats(const tri_dataset *d) { return &d->stats; }

tri_status tri_dataset_assume(tri_data_kind kind, int64_t n, int longest, tri_dataset **out) {
  TRI_TRY(TRI_ALLOC(*out, 1));
  (*out)->kind = kind;
  (*out)->n = n;
  (*out)->stats = (tri_data_stats){.longest_prompt = longest, .longest = longest};
  return TRI_OK;
}

const tri_example *tri_dataset_get(const tri_dataset *d, int64_t i) {
  TRI_ASSERT(i >= 0 && i < d->n);
  return &d->example[i];
}

const tri_example *tri_dataset_find(const tri_dataset *d, int64_t id) {
  int64_t low = 0, high = d ? d->n : 0; /* ids ascend */

  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (d->example[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return d && low < d->n && d->example[low].id == id ? &d->example[low] : NULL;
}
