/* dataset.c - data files to examples. */
#include "dataset_parts.h"

#include <jansson.h>
#include <string.h>

#include "io/text/jsonl.h"

enum { ARENA_BYTES = 1 << 20 }; /* chosen: few allocations, little waste */
enum { BAD_LINES = 20 };        /* chosen: shown at most; more say the same again */
enum { FIELDS_BYTES = 256 };    /* chosen: names of fields in a message */

/* One line on its way in. id: the tokens so far, one buffer for all lines. */
typedef struct intake {
  const tri_data_opt *opt;
  const char         *prompt_key, *answer_key, *completion_key;
  tri_dataset        *d;
  tri_jsonl          *r;
  json_t             *object;
  int32_t            *id;                      /* [cap] */
  int64_t             n, cap, n_prompt, n_bad; /* n_bad: lines */
  int                 file;                    /* index of the file */
} intake;

/* Fail at the place of the line. */
#define FAIL_LINE(in, fmt, ...)                                                                              \
  TRI_FAIL(TRI_EINPUT, "%s:%lld: " fmt, tri_jsonl_path((in)->r), (long long)tri_jsonl_line((in)->r),         \
           __VA_ARGS__)

/* Copy n bytes into the arena, with a NUL behind them. */
static tri_status arena_put(tri_dataset *d, const void *from, size_t n, void *out) {
  size_t       need = (n + 1 + 7) / 8 * 8;
  arena_block *b = d->arena;
  char        *place;

  if (!b || b->cap - b->used < need) {
    size_t cap = need > ARENA_BYTES ? need : ARENA_BYTES;
    TRI_TRY(TRI_ALLOC(b, 1));
    b->next = d->arena;
    d->arena = b;
    TRI_TRY(TRI_ALLOC(b->data, cap));
    b->cap = cap;
  }
  place = b->data + b->used;
  if (n) memcpy(place, from, n);
  place[n] = 0;
  b->used += need;
  memcpy(out, &place, sizeof place);
  return TRI_OK;
}

static tri_status put_ids(intake *in, const int32_t *id, int64_t n) {
  if (in->n + n > INT32_MAX / 2) FAIL_LINE(in, "has more than %d tokens", INT32_MAX / 2);
  if (in->n + n > in->cap) {
    int32_t *grown;
    TRI_TRY(TRI_ALLOC(grown, 2 * (in->n + n)));
    if (in->n) memcpy(grown, in->id, (size_t)in->n * sizeof *grown);
    TRI_FREE(in->id);
    in->id = grown;
    in->cap = 2 * (in->n + n);
  }
  if (n) memcpy(in->id + in->n, id, (size_t)n * sizeof *id);
  in->n += n;
  return TRI_OK;
}

/* The line lacks a key that an option names: what it has instead. */
static tri_status refuse_missing(const intake *in, const char *key, const char *deck, const char *flag) {
  char fields[FIELDS_BYTES];

  FAIL_LINE(in, "has no `%s`; %s; set %s", key, tri_jsonl_fields(in->r, fields, sizeof fields),
            in->opt->from_deck ? deck : flag);
}

/* The text under `key`, which must be there. */
static tri_status get_text(const intake *in, const char *key, const char **text, size_t *n) {
  const json_t *v = json_object_get(in->object, key);

  *text = NULL;
  *n = 0;
  if (json_is_array(v))
    FAIL_LINE(
        in,
        "`%s` must be text; a list of messages needs a chat template, which this version does not have yet",
        key);
  if (!json_is_string(v)) FAIL_LINE(in, "`%s` must be text", key);
  *text = json_string_value(v);
  *n = json_string_length(v);
  return TRI_OK;
}

static tri_status encode(intake *in, const char *key, const char *text, size_t n, bool special) {
  const int32_t *id = NULL;
  int64_t        n_id = 0;

  if (!in->opt->encode)
    FAIL_LINE(in, "`%s` is text, but the model has no tokenizer; give `tokens` instead%s", key,
              in->opt->from_deck ? ", or model.tokenizer" : "");
  TRI_TRY(tri_jsonl_place(in->r, in->opt->encode(in->opt->ctx, text, n, special, &id, &n_id)));
  for (int64_t i = 0; i < n_id; i++)
    if (id[i] < 0 || id[i] >= in->opt->vocab)
      FAIL_LINE(in,
                "the tokenizer makes token %d of `%s`, but the model's vocabulary is 0 .. %d: they do not "
                "belong together",
                id[i], key, in->opt->vocab - 1);
  return put_ids(in, id, n_id);
}

/* Put the end token behind the tokens from `first` on, once. */
static tri_status put_end(intake *in, int64_t first, int32_t end) {
  if (end < 0 || (in->n > first && in->id[in->n - 1] == end)) return TRI_OK;
  if (end >= in->opt->vocab)
    FAIL_LINE(in, "the end token %d is not in the model's vocabulary, 0 .. %d", end, in->opt->vocab - 1);
  return put_ids(in, &end, 1);
}

static tri_status take_tokens(intake *in) {
  const json_t  *prompt = json_object_get(in->object, "prompt_tokens");
  bool           is_prompt = tri_data_is_prompts(in->opt->kind);
  const int32_t *id;
  int64_t        n, least = is_prompt, most;

  TRI_TRY(tri_jsonl_ids(in->r, "tokens", in->opt->vocab, &id, &n));
  TRI_TRY(put_ids(in, id, n));
  in->n_prompt = is_prompt ? n : 0;
  if (!prompt) return TRI_OK;
  if (!json_is_integer(prompt)) FAIL_LINE(in, "`%s` must be a whole number", "prompt_tokens");
  in->n_prompt = json_integer_value(prompt);
  most = in->opt->kind == TRI_DATA_SFT ? n - 1 : n;
  if (in->n_prompt < least || in->n_prompt > most)
    FAIL_LINE(in, "`prompt_tokens` = %lld: must be in %lld .. %lld, there are %lld tokens",
              (long long)in->n_prompt, (long long)least, (long long)most, (long long)n);
  if (is_prompt) in->n = in->n_prompt;
  return TRI_OK;
}

static tri_status take_prompt(intake *in) {
  const char *text;
  size_t      n;

  if (!json_object_get(in->object, in->prompt_key))
    return refuse_missing(in, in->prompt_key, "data.prompt_key", "--prompt-key");
  TRI_TRY(get_text(in, in->prompt_key, &text, &n));
  TRI_TRY(encode(in, in->prompt_key, text, n, true));
  in->n_prompt = in->n;
  if (!in->n && tri_data_is_prompts(in->opt->kind)) FAIL_LINE(in, "`%s` has no tokens", in->prompt_key);
  return TRI_OK;
}

static tri_status take_text_or_completion(intake *in) {
  bool has_completion = json_object_get(in->object, in->completion_key) != NULL;
  bool has_text = json_object_get(in->object, "text") && strcmp("text", in->prompt_key) &&
                  strcmp("text", in->completion_key);
  const char *text;
  size_t      n;
  char        fields[FIELDS_BYTES];

  if (has_completion && has_text)
    FAIL_LINE(in, "has both `%s` and `text`; which one is meant?", in->completion_key);
  if (!has_completion && !has_text)
    FAIL_LINE(in, "needs `%s` and `%s`, or `text`, or `tokens`; %s; set %s", in->prompt_key,
              in->completion_key, tri_jsonl_fields(in->r, fields, sizeof fields),
              in->opt->from_deck ? "data.prompt_key, data.completion_key" : "--prompt-key, --completion-key");
  if (has_text) {
    TRI_TRY(get_text(in, "text", &text, &n));
    TRI_TRY(encode(in, "text", text, n, true));
    return put_end(in, 0, in->opt->text_end);
  }
  TRI_TRY(take_prompt(in));
  TRI_TRY(get_text(in, in->completion_key, &text, &n));
  TRI_TRY(encode(in, in->completion_key, text, n, false));
  return put_end(in, in->n_prompt, in->opt->completion_end);
}

static tri_status refuse_other_forms(const intake *in) {
  static const char *const pair[] = {"chosen", "rejected"};

  for (int i = 0; i < 2; i++)
    if (json_object_get(in->object, pair[i]) && strcmp(pair[i], in->prompt_key) &&
        strcmp(pair[i], in->answer_key) && strcmp(pair[i], in->completion_key))
      FAIL_LINE(in, "has `%s`: pairs need a preference algorithm, which is not in this version", pair[i]);
  if (json_object_get(in->object, "messages") && !json_object_get(in->object, "tokens"))
    FAIL_LINE(in, "has `%s`: that needs a chat template, which this version does not have yet", "messages");
  return TRI_OK;
}

/* The tokens of the line into in->id; in->n_prompt of them are the prompt. */
static tri_status take_line(intake *in) {
  in->n = in->n_prompt = 0;
  TRI_TRY(refuse_other_forms(in));
  if (json_object_get(in->object, "tokens"))
    TRI_TRY(take_tokens(in));
  else if (tri_data_is_prompts(in->opt->kind))
    TRI_TRY(take_prompt(in));
  else
    TRI_TRY(take_text_or_completion(in));
  if (!in->n) FAIL_LINE(in, "%s", "has no tokens");
  if (in->opt->kind == TRI_DATA_SFT && in->n <= (in->n_prompt > 1 ? in->n_prompt : 1))
    FAIL_LINE(in, "has no token to learn: %lld tokens, %lld of them the prompt", (long long)in->n,
              (long long)in->n_prompt);
  return TRI_OK;
}

/* A line over a limit where that is an error; the others are counted before it is told. */
static void note_too_long(intake *in, bool whole) {
  too_long *t = &in->d->too_long;
  int64_t   n_token = whole ? in->n : in->n_prompt;

  if (!t->n) *t = (too_long){0, in->file, tri_jsonl_line(in->r), n_token, n_token, whole};
  if (whole == t->whole && n_token > t->longest) t->longest = n_token;
  t->n++;
}

static bool prompt_is_long(const intake *in) {
  return in->opt->max_prompt_tokens > 0 && in->n_prompt > in->opt->max_prompt_tokens;
}
static bool line_is_long(const intake *in) {
  return in->opt->max_total_tokens > 0 && !tri_data_is_prompts(in->opt->kind) &&
         in->n > in->opt->max_total_tokens;
}

/* Keep the end of a prompt and the beginning of a line. */
static tri_status truncate_line(intake *in) {
  int64_t most = in->opt->max_prompt_tokens, most_total = in->opt->max_total_tokens;
  bool    is_cut = prompt_is_long(in);

  if (is_cut) {
    int64_t cut = in->n_prompt - most;
    memmove(in->id, in->id + cut, (size_t)(in->n - cut) * sizeof *in->id);
    in->n -= cut;
    in->n_prompt = most;
  }
  if (line_is_long(in)) {
    if (most_total <= (in->n_prompt > 1 ? in->n_prompt : 1))
      FAIL_LINE(in, "its prompt has %lld tokens, so that nothing else fits into %lld: %s",
                (long long)in->n_prompt, (long long)most_total, in->opt->max_total_name);
    in->n = most_total;
    is_cut = true;
  }
  in->d->stats.n_truncated += is_cut;
  return TRI_OK;
}

/* Apply the limits to the tokens of the line. */
static tri_status limit_length(intake *in, bool *keep) {
  bool long_prompt = prompt_is_long(in);

  *keep = true;
  if (in->opt->overlong == TRI_OVERLONG_TRUNCATE) return truncate_line(in);
  *keep = !long_prompt && !line_is_long(in);
  if (*keep) return TRI_OK;
  if (in->opt->overlong == TRI_OVERLONG_ERROR)
    note_too_long(in, !long_prompt);
  else
    in->d->stats.n_dropped++;
  return TRI_OK;
}

/* A prompt's text and answer; the line is kept. */
static tri_status take_texts(intake *in, tri_example *e) {
  const json_t *prompt = json_object_get(in->object, in->prompt_key);
  const json_t *answer = json_object_get(in->object, in->answer_key);
  const char   *text, *why = NULL;

  if (json_is_string(prompt)) {
    e->prompt_bytes = json_string_length(prompt);
    TRI_TRY(arena_put(in->d, json_string_value(prompt), e->prompt_bytes, &e->prompt));
  }
  if (in->opt->kind == TRI_DATA_PROMPTS && (!answer || json_is_null(answer))) return TRI_OK;
  if (!answer) return refuse_missing(in, in->answer_key, "data.answer_key", "--answer-key");
  if (json_is_string(answer)) {
    text = json_string_value(answer);
    e->answer_bytes = json_string_length(answer);
  } else if (json_is_number(answer)) {
    text = tri_jsonl_raw(in->r, in->answer_key, &e->answer_bytes);
  } else {
    FAIL_LINE(in, "`%s` must be text or a number", in->answer_key);
  }
  if (in->opt->refuse) why = in->opt->refuse(in->opt->refuse_ctx, text, e->answer_bytes);
  if (why) FAIL_LINE(in, "`%s` %s", in->answer_key, why);
  return arena_put(in->d, text, e->answer_bytes, &e->answer);
}

static tri_status add_example(intake *in, int64_t id) {
  tri_dataset    *d = in->d;
  tri_data_stats *s = &d->stats;
  tri_example    *e;

  TRI_TRY(TRI_GROW(d->example, d->cap, d->n + 1));
  e = &d->example[d->n];
  *e = (tri_example){.id = id, .n_token = (int)in->n, .n_prompt = (int)in->n_prompt};
  if (tri_data_is_prompts(in->opt->kind)) TRI_TRY(take_texts(in, e));
  TRI_TRY(arena_put(d, in->id, (size_t)in->n * sizeof *in->id, &e->token));
  d->n++;
  s->n_token += in->n;
  if (!tri_data_is_prompts(in->opt->kind)) s->n_loss += in->n - (e->n_prompt > 1 ? e->n_prompt : 1);
  if (e->n_prompt > s->longest_prompt) s->longest_prompt = e->n_prompt;
  if (e->n_token > s->longest) s->longest = e->n_token;
  return TRI_OK;
}

/* *more: false where the file has ended. */
static tri_status next_line(intake *in, bool *more) {
  bool keep;

  *more = true;
  TRI_TRY(tri_jsonl_next(in->r, &in->object));
  *more = in->object != NULL;
  if (!*more) return TRI_OK;
  TRI_TRY(take_line(in));
  TRI_TRY(limit_length(in, &keep));
  return keep ? add_example(in, in->d->stats.n_line + tri_jsonl_taken(in->r) - 1) : TRI_OK;
}

/* With opt->faults a bad line that was read to its end is noted, up to BAD_LINES of them. */
static tri_status note_bad_line(intake *in, tri_status st, int64_t taken_before) {
  if (st != TRI_EINPUT || !in->opt->faults || tri_jsonl_taken(in->r) == taken_before) return st;
  if (++in->n_bad <= BAD_LINES) return tri_error_note(st, in->opt->faults);
  tri_error_clear();
  return TRI_OK;
}

static tri_status read_file(intake *in, const char *path, int64_t begin, int64_t end) {
  tri_status st = TRI_OK;
  bool       more = true;

  TRI_TRY(tri_jsonl_open_part(path, begin, end, &in->r));
  if (in->opt->max_line_bytes) tri_jsonl_limit(in->r, in->opt->max_line_bytes, "data.max_line_bytes");
  for (;;) {
    int64_t before = tri_jsonl_taken(in->r);
    TRI_TRY_DONE(note_bad_line(in, next_line(in, &more), before));
    if (!more) break;
  }
  in->d->stats.n_line += tri_jsonl_taken(in->r);
done:
  tri_jsonl_close(&in->r);
  return st;
}

/* The bad lines that were not shown, in one message. */
static tri_status note_more_bad_lines(const intake *in, const char *const *file, int n_file) {
  long long more = in->n_bad - BAD_LINES;

  if (more <= 0) return TRI_OK;
  in->opt->faults->n += more - 1;
  return tri_error_note(tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
                                 "%s%s: %lld more bad line%s, %lld in all", file[0], n_file > 1 ? " ..." : "",
                                 more, more == 1 ? "" : "s", (long long)in->n_bad),
                        in->opt->faults);
}

static tri_status refuse_too_long(const tri_dataset *d, const char *const *file, const tri_data_opt *opt) {
  const too_long *t = &d->too_long;
  const char     *prompt_name = opt->max_prompt_name ? opt->max_prompt_name : "data.max_prompt_length";

  TRI_FAIL(TRI_EINPUT,
           "%s:%lld: %s %lld tokens, at most %lld are possible: %s%s; too long are %lld of %lld lines, up to "
           "%lld tokens",
           file[t->file], (long long)t->line, t->whole ? "has" : "its prompt has", (long long)t->n_token,
           (long long)(t->whole ? opt->max_total_tokens : opt->max_prompt_tokens),
           t->whole ? opt->max_total_name : prompt_name,
           opt->from_deck ? " (data.overlong_prompt: drop or truncate)" : "", (long long)t->n,
           (long long)d->stats.n_line, (long long)t->longest);
}

tri_status tri_dataset_read(const char *const *file, int n_file, const tri_data_opt *opt,
                            const tri_data_range *range, tri_dataset **out) {
  tri_status st = TRI_OK;
  intake     in = {.opt = opt,
                   .prompt_key = opt->prompt_key ? opt->prompt_key : "prompt",
                   .answer_key = opt->answer_key ? opt->answer_key : "answer",
                   .completion_key = opt->completion_key ? opt->completion_key : "completion"};

  *out = NULL;
  TRI_ASSERT(n_file > 0 && opt->vocab > 0);
  TRI_ASSERT(opt->max_total_tokens <= 0 || opt->max_total_name);
  TRI_TRY_DONE(TRI_ALLOC(in.d, 1));
  for (in.file = 0; in.file < n_file; in.file++) {
    const tri_data_range *r = &range[in.file];
    if (r->begin < r->end) TRI_TRY_DONE(read_file(&in, file[in.file], r->begin, r->end));
  }
  TRI_TRY_DONE(note_more_bad_lines(&in, file, n_file));
  if (in.n_bad && in.d->too_long.n) /* else tri_dataset_finish says it, of all parts */
    TRI_TRY_DONE(tri_error_note(refuse_too_long(in.d, file, opt), opt->faults));
done:
  TRI_FREE(in.id);
  if (st != TRI_OK || in.n_bad) tri_dataset_close(&in.d);
  *out = in.d;
  return st;
}

tri_status tri_dataset_finish(tri_dataset *d, const char *const *file, int n_file, const tri_data_opt *opt) {
  if (d->too_long.n) return refuse_too_long(d, file, opt);
  if (!d->n && d->stats.n_dropped)
    TRI_FAIL(TRI_EINPUT, "%s%s: all %lld examples are too long and were dropped (data.overlong_prompt: drop)",
             file[0], n_file > 1 ? " ..." : "", (long long)d->stats.n_dropped);
  if (!d->n) TRI_FAIL(TRI_EINPUT, "%s%s: has no lines", file[0], n_file > 1 ? " ..." : "");
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
    TRI_FREE(b->data);
    TRI_FREE(b);
  }
  TRI_FREE((*d)->shared);
  TRI_FREE((*d)->example);
  TRI_FREE((*d)->order);
  TRI_FREE(*d);
}

int64_t               tri_dataset_count(const tri_dataset *d) { return d->n; }
const tri_data_stats *tri_dataset_stats(const tri_dataset *d) { return &d->stats; }

const tri_example *tri_dataset_get(const tri_dataset *d, int64_t i) {
  TRI_ASSERT(i >= 0 && i < d->n);
  return &d->example[i];
}
