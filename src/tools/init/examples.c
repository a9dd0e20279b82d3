/* examples.c - finds the algorithms that can learn from the lines of a data file, and the keys of their
 * fields. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples.h"
#include "io/data/dataset.h"
#include "io/text/jsonl.h"

#include <stdlib.h>
#include <string.h>

enum { LOOKED_AT = 256 }; /* chosen, lines. trireme train --check reads all of them */

/* ---- fields ---- */

/* Type of a field in every line read, as bits. 0: the type varies, or a line lacks the field. */
enum { TEXT = 1, LIST = 2, NUMBER = 4, TRUTH = 8 };

typedef enum {
  PROMPT,
  ANSWER = PROMPT + 7,
  COMPLETION = ANSWER + 6,
  CHOSEN = COMPLETION + 7,
  REJECTED,
  LABEL,
  TOKENS = LABEL + 3,
  PROMPT_TOKENS,
  CHOSEN_TOKENS,
  REJECTED_TOKENS,
  PLAIN_TEXT,
  MESSAGES,
  FIELDS
} field;

/* Spellings in use, the most likely first. Prompts, answers, completions and labels have several. */
static const char *const names[FIELDS] = {[PROMPT] = "prompt",
                                          "question",
                                          "problem",
                                          "instruction",
                                          "query",
                                          "input",
                                          "messages",
                                          [ANSWER] = "answer",
                                          "solution",
                                          "ground_truth",
                                          "target",
                                          "reference",
                                          "reward_model.ground_truth",
                                          [COMPLETION] = "completion",
                                          "response",
                                          "output",
                                          "answer",
                                          "conversations",
                                          "conversation",
                                          "dialogue",
                                          [CHOSEN] = "chosen",
                                          "rejected",
                                          [LABEL] = "label",
                                          "kto_tag",
                                          "desirable",
                                          [TOKENS] = "tokens",
                                          "prompt_tokens",
                                          "chosen_tokens",
                                          "rejected_tokens",
                                          "text",
                                          "messages"};

/* Facts about the lines so far. */
typedef struct look {
  unsigned is[FIELDS];
  bool     marked[FIELDS], boxed[FIELDS], number[FIELDS]; /* all lines have "####", \boxed{, nothing but a
                                                           * number */
  bool     label[FIELDS], labelled[FIELDS];               /* label: a line has the field. labelled: all lines
                                                           * have a valid label in it */
  bool     written;
} look;

static unsigned type_of(const char *raw) {
  switch (raw[0]) {
  case '"':
    return TEXT;
  case '[':
    return LIST;
  case 't':
  case 'f':
    return TRUTH;
  case '{':
  case 'n':
    return 0;
  default:
    return NUMBER;
  }
}

static bool holds(const char *raw, size_t n, const char *what) {
  size_t m = strlen(what);

  for (size_t i = 0; i + m <= n; i++)
    if (!memcmp(raw + i, what, m)) return true;
  return false;
}

/* Returns whether the value is a number, or text that is a number. */
static bool is_number(const char *raw, size_t n) {
  char   text[64];
  char  *end;
  size_t quotes = raw[0] == '"';

  if (n <= 2 * quotes || n - 2 * quotes >= sizeof text) return false;
  memcpy(text, raw + quotes, n - 2 * quotes);
  text[n - 2 * quotes] = '\0';
  if (strspn(text, "0123456789+-.eE") != strlen(text)) return false;
  (void)strtod(text, &end);
  return end != text && !*end;
}

/* Returns whether a chat template wrote the text. It then contains a mark with which published templates
 * begin a turn. */
static bool is_written(const char *raw, size_t n) {
  static const char *const marks[] = {
      "<|im_start|>", "<|start_header_id|>", "<start_of_turn>",        "[INST]",
      "<|user|>",     "<|start_of_role|>",   "<|START_OF_TURN_TOKEN|>"};

  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (holds(raw, n, marks[i])) return true;
  return false;
}

static void look_at(const tri_jsonl *r, const struct json_t *line, bool first, look *l) {
  for (int i = 0; i < FIELDS; i++) {
    size_t      n;
    const char *raw = tri_jsonl_raw(r, names[i], &n);
    unsigned    is = raw && n ? type_of(raw) : 0;
    l->is[i] = first || l->is[i] == is ? is : 0;
    l->marked[i] = is && (first || l->marked[i]) && holds(raw, n, "####");
    l->boxed[i] = is && (first || l->boxed[i]) && holds(raw, n, "\\\\boxed");
    l->number[i] = is && (first || l->number[i]) && is_number(raw, n);
    l->label[i] |= i >= LABEL && i < TOKENS && raw;
    l->labelled[i] = (first || l->labelled[i]) && tri_dataset_is_label(line, names[i]);
    if ((i < ANSWER || i == PLAIN_TEXT) && is == TEXT && is_written(raw, n)) l->written = true;
  }
}

/* Returns the first spelling in [begin, end) that every line has with one of these types. FIELDS: none. */
static int first_of(const look *l, int begin, int end, unsigned types) {
  for (int i = begin; i < end; i++)
    if (l->is[i] & types) return i;
  return FIELDS;
}

/* ---- uses ---- */

/* Returns the reward that compares answers, by the form that all of them have. */
static const char *reward_for(const look *l, int answer) {
  if (l->number[answer]) return "number";
  if (l->marked[answer]) return "gsm8k";
  return l->boxed[answer] ? "boxed" : "exact";
}

/* Finds the label. One line with it is enough, because the reader later names each line without one. */
static void judge_label(const look *l, tri_examples *out) {
  for (int i = LABEL; i < TOKENS; i++) {
    if (!l->label[i]) continue;
    out->needs |= TRI_NEEDS_LABELLED;
    out->label = names[i];
    out->labelled = l->labelled[i];
    return;
  }
}

static void judge(const look *l, tri_examples *out) {
  bool tokens = l->is[TOKENS] & LIST, prompt_tokens = l->is[PROMPT_TOKENS] & NUMBER;
  int  prompt = first_of(l, PROMPT, ANSWER, TEXT | LIST),
      answer = first_of(l, ANSWER, COMPLETION, TEXT | NUMBER),
      completion = first_of(l, COMPLETION, CHOSEN, TEXT | LIST);
  bool asks = prompt < FIELDS || (tokens && prompt_tokens),
       answers = (prompt < FIELDS && completion < FIELDS) || (tokens && prompt_tokens),
       whole = l->is[MESSAGES] & LIST || (completion < FIELDS && l->is[completion] & LIST);

  if (prompt < FIELDS && strcmp(names[prompt], "messages") != 0) out->prompt = names[prompt];
  int truth = answer < FIELDS ? answer : first_of(l, COMPLETION, CHOSEN, TEXT);
  if (asks && truth < FIELDS) {
    out->answer = names[truth];
    out->reward = reward_for(l, truth);
  }
  if (completion < FIELDS) out->completion = names[completion];
  out->conversation = (prompt < FIELDS && l->is[prompt] & LIST) ||
                      (completion < FIELDS && l->is[completion] & LIST) || l->is[CHOSEN] & LIST ||
                      l->is[MESSAGES] & LIST;
  out->plain = prompt < FIELDS && l->is[prompt] & TEXT && !l->written;
  out->bare = !answers && !tokens && !out->conversation && l->is[PLAIN_TEXT] & TEXT && !l->written;
  out->text = prompt < FIELDS || completion < FIELDS || l->is[PLAIN_TEXT] & TEXT || l->is[MESSAGES] & LIST ||
              l->is[CHOSEN] & (TEXT | LIST);
  if ((l->is[CHOSEN] & l->is[REJECTED] & (TEXT | LIST)) ||
      (l->is[CHOSEN_TOKENS] & l->is[REJECTED_TOKENS] & LIST)) {
    out->needs = TRI_NEEDS_PAIRS; /* other kinds of data refuse such lines */
    return;
  }
  if (asks && answer < FIELDS) out->needs |= TRI_NEEDS_ANSWERS;
  if (answers || tokens || whole) judge_label(l, out);
  if (answers || tokens || whole || l->is[PLAIN_TEXT] & TEXT) out->needs |= TRI_NEEDS_DEMONSTRATIONS;
}

/* Returns the kind of data to read a line as, before an algorithm is chosen. wanted: TRI_NEEDS_* of the
 * algorithm asked for, or 0. */
static tri_data_kind kind_of(const tri_jsonl *r, unsigned wanted) {
  size_t n;

  if (tri_jsonl_raw(r, "chosen", &n) && tri_jsonl_raw(r, "rejected", &n)) return TRI_DATA_PAIRS;
  if (wanted & TRI_NEEDS_ANSWERS) return TRI_DATA_RL;
  for (int i = LABEL; i < TOKENS && !(wanted & TRI_NEEDS_DEMONSTRATIONS); i++)
    if (tri_jsonl_raw(r, names[i], &n)) return TRI_DATA_LABELLED;
  return TRI_DATA_SFT;
}

/* Fails with a message about the first line. If it has only a prompt, it may have the fields of pairs under
 * other names. */
static tri_status refuse(const char *path, const look *l, unsigned wanted) {
  static const char none[] =
      "no algorithm learns from such lines. Lines must be {\"prompt\", \"answer\"}, {\"prompt\", "
      "\"completion\"}, "
      "{\"messages\"}, {\"prompt\", \"chosen\", \"rejected\"}, {\"prompt\", \"completion\", \"label\"}, "
      "{\"text\"} or {\"tokens\"}";
  static const char asked[] =
      "these lines have prompts, but no answer to learn from or to compare with. Add \"answer\", "
      "\"completion\", or \"chosen\" and \"rejected\", or write a deck with a reward of your own, as "
      "inputs/8b/ppo.yaml";
  bool           asks = first_of(l, PROMPT, ANSWER, TEXT | LIST) < FIELDS;
  tri_jsonl     *r = NULL;
  struct json_t *line = NULL;
  tri_status     st = TRI_OK;

  TRI_TRY(tri_jsonl_open(path, &r));
  TRI_TRY_DONE(tri_jsonl_next(r, &line));
  if (!line) TRI_FAIL_DONE(TRI_EINPUT, "%s: the file has no lines", path);
  TRI_TRY_DONE(
      tri_dataset_refuse_form(r, line, asks ? TRI_DATA_PAIRS : kind_of(r, wanted), asks ? asked : none));
done:
  tri_jsonl_close(&r);
  return st;
}

tri_status tri_examples_look(const char *path, unsigned wanted, tri_examples *out) {
  tri_jsonl     *r = NULL;
  look           l = {.written = false};
  struct json_t *line = NULL;
  tri_status     st = TRI_OK;

  *out = (tri_examples){0};
  TRI_TRY_DONE(tri_jsonl_open(path, &r));
  for (; out->n_line < LOOKED_AT; out->n_line++) {
    TRI_TRY_DONE(tri_jsonl_next(r, &line));
    if (!line) break;
    TRI_TRY_DONE(tri_dataset_check_form(r, line, kind_of(r, wanted)));
    look_at(r, line, !out->n_line, &l);
  }
  if (!out->n_line) TRI_FAIL_DONE(TRI_EINPUT, "%s: the file has no lines", path);
  judge(&l, out);
  if (!out->needs) TRI_TRY_DONE(refuse(path, &l, wanted));
done:
  tri_jsonl_close(&r);
  return st;
}
