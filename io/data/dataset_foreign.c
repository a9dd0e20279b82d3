/* dataset_foreign.c - recognises data lines in formats of other programs, and says how to convert them.
 *
 * The formats are those of ShareGPT and Alpaca, Anthropic's pairs, and fields of other names. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataset_foreign.h"
#include "base/file.h"
#include "io/text/rewrite.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

enum { FIELDS_BYTES = 256, NAME_BYTES = 96 }; /* chosen for names of fields in a message */
enum { MOST_NEAR = 64, NEAR_LONG = 8 }; /* chosen: fields compared; from 8 letters on, 3 edits are a slip */

/* The cure for a line. */
typedef struct cure {
  tri_text said;    /* a clause, empty if none is known */
  tri_text command; /* a shell command, and how to use its file, or empty */
  tri_text rename;  /* a jq program that renames fields of this file instead of setting keys, or empty */
  tri_text names;   /* the names needed instead of keys, with their keys */
  bool     clashes; /* other lines have the names of the deck, so a key would break them */
  bool     lacks;   /* the command has no setting for one of the fields */
} cure;

static void cure_free(cure *c) {
  tri_text_free(&c->said);
  tri_text_free(&c->command);
  tri_text_free(&c->rename);
  tri_text_free(&c->names);
}

/* ---- contents of lines ---- */

static bool has(const tri_line_parser *in, const char *key) {
  return json_object_get(in->object, key) != NULL;
}

static bool is_text(const json_t *object, const char *key) {
  return json_is_string(json_object_get(object, key));
}

/* Tells whether v, or the first of a list v, is a message with these two fields. */
static bool is_message(const json_t *v, const char *role, const char *content) {
  const json_t *m = json_is_array(v) ? json_array_get(v, 0) : v;

  return is_text(m, role) && json_object_get(m, content) != NULL;
}

static bool is_sharegpt(const json_t *v) {
  return is_message(v, "from", "value") && !is_message(v, "role", "content");
}

/* Tells whether a name needs no quotes in jq and a shell. */
static bool is_plain(const char *name) {
  size_t n = strlen(name);

  for (size_t i = 0; i < n; i++)
    if (!(isalpha((unsigned char)name[i]) || name[i] == '_' || (i && isdigit((unsigned char)name[i]))))
      return false;
  return n > 0 && n < NAME_BYTES / 2;
}

/* Returns the first field with a list of messages, or NULL. Leaves out fields that are read already. */
static const char *find_list(const tri_line_parser *in, const json_t *object, bool sharegpt) {
  bool        top = object == in->object;
  const char *key;
  json_t     *v;

  json_object_foreach((json_t *)object, key, v) {
    bool read = !strcmp(key, in->chosen_key) || !strcmp(key, in->rejected_key);
    if (!sharegpt)
      read |= !strcmp(key, in->prompt_key) || !strcmp(key, in->completion_key) || !strcmp(key, "messages");
    if ((top && read) || !json_is_array(v) || !is_plain(key)) continue;
    if (sharegpt ? is_sharegpt(v) : is_message(v, "role", "content")) return key;
  }
  return NULL;
}

/* Does the same one level deeper, "body.messages". */
static const json_t *find_inner_list(const tri_line_parser *in, char path[NAME_BYTES]) {
  const char   *key;
  json_t       *v;
  const json_t *found = NULL;

  json_object_foreach(in->object, key, v) {
    const char *inner = !found && json_is_object(v) && is_plain(key) ? find_list(in, v, false) : NULL;
    if (!inner) continue;
    snprintf(path, NAME_BYTES, "%s.%s", key, inner);
    if (strcmp(path, in->prompt_key) && strcmp(path, in->completion_key)) found = json_object_get(v, inner);
  }
  return found;
}

/* ---- other lines read with the same keys ---- */

/* Tells whether the first line of a file has the field `key` and lacks the field `other` (NULL: none). */
static bool first_has(const char *path, const char *key, const char *other) {
  tri_jsonl *r = NULL;
  json_t    *line = NULL;
  tri_status st = tri_jsonl_open(path, &r);
  bool       found = false;

  if (st == TRI_OK) st = tri_jsonl_next(r, &line);
  if (st == TRI_OK && line) st = tri_jsonl_name_path(r, key);
  if (st == TRI_OK && line && other) st = tri_jsonl_name_path(r, other);
  if (st == TRI_OK && line) found = json_object_get(line, key) && !(other && json_object_get(line, other));
  tri_jsonl_close(&r);
  if (st != TRI_OK) tri_error_clear(); /* the reader of that file reports its errors */
  return found;
}

/* Tells whether another line has `key` and would lack its field if a key of the deck named `other` instead.
 * Looks at the first lines of this file and of all files with the same keys. */
static bool others_need(const tri_line_parser *in, const char *key, const char *other) {
  for (int i = 0; i < in->n_files; i++)
    if (first_has(in->files[i], key, other)) return true;
  for (int i = 0; i < in->opt->n_beside; i++)
    if (first_has(in->opt->beside[i], key, other)) return true;
  return false;
}

/* Tells whether names joined by dots need no quotes in jq and a shell. */
static bool is_plain_path(const char *path) {
  char name[NAME_BYTES];

  for (;; path++) {
    size_t n = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)n, path);
    if (n >= sizeof name || !is_plain(name)) return false;
    path += n;
    if (!*path) return true;
  }
}

/* ---- the cures ---- */

/* Prepares the renaming of a field to the name `key` in lines without this name. `option` sets the name. */
static tri_status put_rename(const tri_line_parser *in, const char *option, const char *key,
                             const char *field, cure *out) {
  out->clashes |= others_need(in, key, field);
  TRI_TRY(tri_text_printf(&out->names, "%s`%s` (%s)", out->names.len ? ", " : "", key, option));
  if (!field || !is_plain_path(key) || !is_plain_path(field)) return TRI_OK;
  return tri_text_printf(&out->rename,
                         "%sif .%s == null and .%s != null then .%s = .%s | del(.%s) else . end",
                         out->rename.len ? " | " : "", key, field, key, field, field);
}

/* Appends a key that names a field of the line: "data.prompt_key: question" or "--prompt-key question". field
 * NULL means unknown. `key` is the present name. Appends nothing if the command cannot set the key. */
static tri_status put_key(const tri_line_parser *in, const char *deck, const char *flag, const char *key,
                          const char *field, cure *out) {
  bool        deck_s = in->opt->from_deck;
  const char *set = tri_line_parser_setting(in, deck, flag);

  if (!set) return TRI_OK;
  TRI_TRY(put_rename(in, deck_s ? deck : flag, key, field, out));
  return tri_text_printf(&out->said, "%s%s%s%s", out->said.len ? ", " : "set ", set,
                         !field   ? ""
                         : deck_s ? ": "
                                  : " ",
                         field ? field : "");
}

static tri_status put_command(const tri_line_parser *in, const char *before, const char *program, cure *out) {
  tri_text   jq = {0};
  tri_status st = tri_text_printf(&jq, "jq -c '%s%s'", before, program);

  if (st == TRI_OK)
    st = tri_rewrite_put(tri_jsonl_path(in->r), jq.data, tri_line_parser_file_key(in), &out->command);
  tri_text_free(&jq);
  return st;
}

/* Maps ShareGPT's roles to those of templates. */
#define ROLE "{human: \"user\", gpt: \"assistant\", observation: \"tool\"}"
static const char *const foreign_roles[] = {"human", "gpt", NULL};

/* Converts messages with `from` and `value`. */
static tri_status cure_sharegpt(const tri_line_parser *in, const char *key, cure *out) {
  static const char def[] = "def m: {role: (" ROLE "[.from] // .from), content: .value}; ";
  static const char first[] = "(.system | strings | select(. != \"\") | {role: \"system\", content: .}), ";
  bool              lists = json_is_array(json_object_get(in->object, in->chosen_key));
  tri_text          program = {0};
  tri_status        st;

  if (in->opt->kind == TRI_DATA_PAIRS && !key)
    st = tri_text_printf(&program, ".chosen |= map(m) | .rejected |= map(m)");
  else if (in->opt->kind == TRI_DATA_PAIRS)
    st = tri_text_printf(&program, "{prompt: [%s(.%s[] | m)], chosen: %s, rejected: %s}", first, key,
                         lists ? "[.chosen[] | m]" : "[.chosen | m]",
                         lists ? "[.rejected[] | m]" : "[.rejected | m]");
  else if (tri_data_is_prompts(in->opt->kind))
    st = tri_text_printf(&program, "{prompt: [%s(.%s[:-1][] | m)], answer: .%s[-1].value} + del(.%s)", first,
                         key, key, key);
  else
    st = tri_text_printf(&program, "{messages: [%s(.%s[] | m)]} + del(.%s)", first, key, key);
  if (st == TRI_OK) st = tri_text_printf(&out->said, "convert ShareGPT's messages, `from` and `value`, by");
  if (st == TRI_OK) st = put_command(in, def, program.data, out);
  tri_text_free(&program);
  return st;
}

static const char *const answer_names[] = {"answer",       "solution", "ground_truth", "expected_answer",
                                           "final_answer", "gold",     "target",       NULL};

/* Returns the first of some names that the line has, with a readable value, or NULL. */
static const char *find_name(const tri_line_parser *in, const char *const *name) {
  while (*name && (!has(in, *name) || json_is_object(json_object_get(in->object, *name)))) name++;
  return *name;
}

/* Returns a field with a similar name that is not read already, or NULL. */
static const char *find_near(const tri_line_parser *in, const char *wanted) {
  const char *const read[] = {in->prompt_key,   in->completion_key, in->answer_key, in->chosen_key,
                              in->rejected_key, in->label_key,      in->margin_key};
  const char       *name[MOST_NEAR], *key;
  json_t           *v;
  int               n = 0;

  json_object_foreach(in->object, key, v) {
    bool taken = json_is_object(v) || !is_plain(key);
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) taken |= read[i] && !strcmp(key, read[i]);
    if (!taken && n < MOST_NEAR) name[n++] = key;
  }
  return tri_nearest_within(strlen(wanted) < NEAR_LONG ? 2 : 3, wanted, name, n);
}

/* Names the field of a prompt, and the field of the right answer. */
static tri_status put_asked(const tri_line_parser *in, const char *key, cure *out) {
  const char *answer = find_name(in, answer_names);

  TRI_TRY(put_key(in, "data.prompt_key", "--prompt-key", in->prompt_key, key, out));
  if (in->opt->kind != TRI_DATA_RL || has(in, in->answer_key) || !answer) return TRI_OK;
  return put_key(in, "data.answer_key", "--answer-key", in->answer_key, answer, out);
}

/* Converts messages under another name than `messages`, or one level deeper. As a prompt, a conversation
 * ending with the assistant's message would be continued. So this message becomes the right answer. */
static tri_status cure_messages(const tri_line_parser *in, const char *key, const json_t *list, cure *out) {
  const json_t *last = json_array_get(list, json_array_size(list) - 1);
  const char   *role = json_string_value(json_object_get(last, "role"));
  char          program[4 * NAME_BYTES];

  if (!tri_data_is_prompts(in->opt->kind))
    return put_key(in, "data.completion_key", "--completion-key", in->completion_key, key, out);
  if (!role || strcmp(role, "assistant") != 0) return put_asked(in, key, out);
  snprintf(program, sizeof program, "{prompt: .%s[:-1], answer: .%s[-1].content} + del(.%s)", key, key, key);
  TRI_TRY(tri_text_printf(&out->said, "`%s` ends with an answer, to be moved to `answer` by", key));
  return put_command(in, "", program, out);
}

/* Tells whether both sides are whole dialogues as text, like Anthropic's hh-rlhf. */
static bool is_dialogue(const tri_line_parser *in) {
  const char *chosen = json_string_value(json_object_get(in->object, "chosen")),
             *rejected = json_string_value(json_object_get(in->object, "rejected"));

  return in->opt->kind == TRI_DATA_PAIRS && chosen && rejected &&
         !json_object_get(in->object, in->prompt_key) && strstr(chosen, "\n\nAssistant:") &&
         strstr(rejected, "\n\nAssistant:");
}

static tri_status cure_dialogue(const tri_line_parser *in, cure *out) {
  TRI_TRY(tri_text_printf(
      &out->said,
      "the prompt ends behind the last `Assistant:` common to both sides, so split them there by"));
  return put_command(in, "def s: split(\"\\n\\nAssistant:\"); def j: join(\"\\n\\nAssistant:\"); ",
                     "(.chosen | s) as $c | (.rejected | s) as $r | ([$c, $r | length] | min - 1) as $m | "
                     "(first(range($m) | select($c[.] != $r[.])) // $m) as $n | select($n > 0) | "
                     "{prompt: ($c[:$n] + [\"\"] | j), chosen: ($c[$n:] | j), rejected: ($r[$n:] | j)}",
                     out);
}

/* Tells whether the line has an instruction whose input belongs to the prompt, earlier turns, or a system
 * message. Alpaca and LLaMA-Factory write such lines. Dolly calls the input context. */
static bool is_alpaca(const tri_line_parser *in) {
  const json_t *o = in->object;

  return is_text(o, "instruction") &&
         (json_object_get(o, "input") || json_object_get(o, "history") || is_text(o, "context") ||
          json_string_length(json_object_get(o, "system"))) &&
         !is_text(o, in->prompt_key);
}

#define JOINED "[.instruction, .%s] | map(select(. != null and . != \"\")) | join(\"\\n\\n\")"

static tri_status put_alpaca(const tri_line_parser *in, const char *input, const char *output, tri_text *def,
                             tri_text *made) {
  const json_t *o = in->object;
  const bool    turns = json_object_get(o, "history") || json_string_length(json_object_get(o, "system"));

  if (turns)
    TRI_TRY(
        tri_text_printf(def,
                        "def p: (" JOINED ") "
                        "as $u | [(.system // \"\" | select(. != \"\") | {role: \"system\", content: .}), "
                        "(.history[]? | {role: \"user\", content: .[0]}, {role: \"assistant\", content: "
                        ".[1]}), {role: \"user\", content: $u}]; ",
                        input));
  else
    TRI_TRY(tri_text_printf(def, "def p: " JOINED "; ", input));
  if (tri_data_is_prompts(in->opt->kind)) return tri_text_printf(made, "{prompt: p, answer: .%s}", output);
  if (in->opt->kind == TRI_DATA_PAIRS) return tri_text_printf(made, "{prompt: p, chosen, rejected}");
  if (in->opt->kind == TRI_DATA_LABELLED)
    return tri_text_printf(made, "{prompt: p, completion: .%s, label: .%s}", output,
                           json_object_get(o, "kto_tag") ? "kto_tag" : "label");
  if (turns) return tri_text_printf(made, "{messages: (p + [{role: \"assistant\", content: .%s}])}", output);
  return tri_text_printf(made, "{prompt: p, completion: .%s}", output);
}

static tri_status cure_alpaca(const tri_line_parser *in, cure *out) {
  static const char *const answers[] = {"output", "response", "completion", NULL};
  const char              *output = find_name(in, answers),
             *input = has(in, "input") || !has(in, "context") ? "input" : "context";
  tri_text   def = {0}, made = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(put_alpaca(in, input, output ? output : "output", &def, &made));
  TRI_TRY_DONE(tri_text_printf(&out->said, "join Alpaca's fields by"));
  TRI_TRY_DONE(put_command(in, def.data, made.data, out));
done:
  tri_text_free(&def);
  tri_text_free(&made);
  return st;
}

/* Names the fields of other names, if at least one is recognised. Lists each key without a field in the line,
 * with the field it should name. */
static tri_status cure_names(const tri_line_parser *in, cure *out) {
  static const char *const prompt[] = {"question", "query", "problem", "instruction", "input",
                                       "inputs",   "user",  "source",  "prompt",      NULL};
  static const char *const completion[] = {"response", "output",    "answer", "completion", "solution",
                                           "reply",    "assistant", "target", "targets",    NULL};
  static const char *const chosen[] = {"chosen",          "accepted", "preferred", "chosen_response",
                                       "response_chosen", "positive", "pos",       NULL};
  static const char *const rejected[] = {
      "rejected", "dispreferred", "rejected_response", "response_rejected", "negative", "neg", NULL};
  static const char *const label[] = {"label", "kto_tag", "desirable", NULL};
  const tri_data_kind      kind = in->opt->kind;
  const bool               pairs = kind == TRI_DATA_PAIRS, one = !pairs && !tri_data_is_prompts(kind),
             whole = json_object_get(in->object, "tokens") || json_object_get(in->object, "messages");
  const struct {
    bool               wanted;
    const char        *key, *deck, *flag;
    const char *const *name;
  } row[] = {{!whole, in->prompt_key, "data.prompt_key", "--prompt-key", prompt},
             {one && !whole, in->completion_key, "data.completion_key", "--completion-key", completion},
             {kind == TRI_DATA_RL, in->answer_key, "data.answer_key", "--answer-key", answer_names},
             {pairs, in->chosen_key, "data.chosen_key", NULL, chosen},
             {pairs, in->rejected_key, "data.rejected_key", NULL, rejected},
             {kind == TRI_DATA_LABELLED, in->label_key, "data.label_key", NULL, label}};
  bool found = false;

  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    if (!row[i].wanted || json_object_get(in->object, row[i].key)) continue;
    const char *field = find_name(in, row[i].name);
    if (!field) field = find_near(in, row[i].key);
    if (!tri_line_parser_setting(in, row[i].deck, row[i].flag)) {
      if (field) TRI_TRY(put_rename(in, "no flag", row[i].key, field, out));
      out->lacks |= field != NULL;
      continue;
    }
    found |= field && (i > 0 || !pairs || (has(in, in->chosen_key) && has(in, in->rejected_key)));
    TRI_TRY(put_key(in, row[i].deck, row[i].flag, row[i].key, field, out));
  }
  if (!found) out->said.len = 0;
  return TRI_OK;
}

static tri_status find_own_cure(const tri_line_parser *in, cure *out) {
  const bool    pairs = in->opt->kind == TRI_DATA_PAIRS, labelled = in->opt->kind == TRI_DATA_LABELLED;
  const bool    both = has(in, in->chosen_key) && has(in, in->rejected_key);
  const char   *conversation = find_list(in, in->object, true), *list = find_list(in, in->object, false);
  const json_t *inner;
  char          path[NAME_BYTES];

  if (labelled && !has(in, in->label_key) && !has(in, "kto_tag") && (conversation || list || is_alpaca(in)))
    return tri_text_printf(&out->said, "kto needs a `label`, true or false, but the line has none");
  if (!pairs || both) {
    if (conversation || (pairs && is_sharegpt(json_object_get(in->object, in->chosen_key))))
      return cure_sharegpt(in, conversation, out);
    if (is_dialogue(in)) return cure_dialogue(in, out);
    if (is_alpaca(in)) return cure_alpaca(in, out);
  }
  if (pairs) return cure_names(in, out);
  if (list) return cure_messages(in, list, json_object_get(in->object, list), out);
  inner = find_inner_list(in, path);
  return inner ? cure_messages(in, path, inner, out) : cure_names(in, out);
}

/* Finds a cure. Where a key would break other lines, or the command cannot set it, the cure renames the
 * fields of this file instead. */
static tri_status find_cure(const tri_line_parser *in, cure *out) {
  TRI_TRY(find_own_cure(in, out));
  if (out->lacks && out->rename.len && !out->command.len) {
    out->said.len = 0;
    TRI_TRY(tri_text_printf(&out->said, "rename the fields here by"));
    return put_command(in, "", out->rename.data, out);
  }
  if (!out->clashes || !out->said.len || out->command.len) return TRI_OK;
  out->said.len = 0;
  if (!out->rename.len)
    return tri_text_printf(&out->said, "other lines have %s, so rename the fields here", out->names.data);
  TRI_TRY(tri_text_printf(&out->said, "other lines have %s, so rename the fields here by", out->names.data));
  return put_command(in, "", out->rename.data, out);
}

/* ---- refusing ---- */

tri_status tri_foreign_refuse(const tri_line_parser *in, const char *what, const char *key,
                              const char *otherwise) {
  char       fields[FIELDS_BYTES], inner[FIELDS_BYTES] = "";
  cure       c = {0};
  tri_status st = find_cure(in, &c);

  if (st == TRI_OK && !c.said.len && key && otherwise && others_need(in, key, NULL))
    st = tri_text_printf(&c.said, "other lines have `%s` (%s), and this line needs it too", key, otherwise);
  if (st == TRI_OK) {
    const char *said = c.said.len ? c.said.data : otherwise;
    if (key) tri_jsonl_inner(in->r, key, inner, sizeof inner);
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "%s:%lld: %s; %s%s%s%s%s", tri_jsonl_path(in->r),
                  (long long)tri_jsonl_line(in->r), what, tri_jsonl_fields(in->r, fields, sizeof fields),
                  inner, said ? "; " : "", said && said == otherwise ? "set " : "", said ? said : "");
    if (c.command.len) tri_error_lines(c.command.data);
  }
  cure_free(&c);
  return st;
}

tri_status tri_foreign_check(const tri_line_parser *in) {
  const bool pairs = in->opt->kind == TRI_DATA_PAIRS, prompts = tri_data_is_prompts(in->opt->kind);
  const struct {
    const char *key;
    bool        read;
  } row[] = {{in->prompt_key, true},
             {in->completion_key, !pairs && !prompts},
             {"messages", !pairs},
             {in->chosen_key, pairs},
             {in->rejected_key, pairs}};
  char what[NAME_BYTES + 64];

  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const json_t *v = json_object_get(in->object, row[i].key);
    if (!row[i].read || !is_sharegpt(v)) continue;
    snprintf(what, sizeof what, "`%.64s` has `from` and `value` instead of `role` and `content`", row[i].key);
    return tri_foreign_refuse(in, what, NULL, NULL);
  }
  return TRI_OK;
}

/* Filters for lines with a prompt, and without one. */
static const char *const labelled_by[] = {
    "{prompt, completion: .chosen, label: true}, {prompt, completion: .rejected, label: false}",
    "{messages: .chosen, label: true}, {messages: .rejected, label: false}"};
static const char *const asked_by[] = {
    "{prompt, answer: .chosen}",
    "{prompt: .chosen[:-1], answer: .chosen[-1].content} + del(.chosen, .rejected)"};

static tri_status cure_pair(const tri_line_parser *in, cure *out) {
  const json_t *chosen = json_object_get(in->object, "chosen");
  const bool    prompted = has(in, in->prompt_key),
             talked = json_is_array(chosen) && is_message(chosen, "role", "content");
  tri_data_opt    opt = *in->opt;
  tri_line_parser pair = *in;
  char            program[4 * NAME_BYTES];

  opt.kind = TRI_DATA_PAIRS;
  pair.opt = &opt;
  if (!has(in, "chosen") || is_sharegpt(chosen) || (!prompted && !talked)) return find_cure(&pair, out);
  if (in->opt->kind == TRI_DATA_LABELLED) {
    TRI_TRY(tri_text_printf(&out->said, "make two labelled lines of each by"));
    return put_command(in, "", labelled_by[!prompted], out);
  }
  if (!tri_data_is_prompts(in->opt->kind) && others_need(in, in->completion_key, "chosen") &&
      is_plain_path(in->completion_key)) {
    snprintf(program, sizeof program,
             "if has(\"chosen\") then .%s = .chosen | del(.chosen, .rejected) else . end",
             in->completion_key);
    TRI_TRY(tri_text_printf(&out->said, "take the better answer as `%s` by", in->completion_key));
    return put_command(in, "", program, out);
  }
  if (!tri_data_is_prompts(in->opt->kind)) {
    const char *set = tri_line_parser_setting(in, "data.completion_key:", "--completion-key");
    return set ? tri_text_printf(&out->said, "%s chosen takes the better answer", set) : TRI_OK;
  }
  TRI_TRY(tri_text_printf(&out->said, "make prompts of them by"));
  return put_command(in, "", asked_by[!prompted], out);
}

tri_status tri_foreign_refuse_pair(const tri_line_parser *in, const char *field) {
  cure       c = {0};
  tri_status st = cure_pair(in, &c);

  if (st == TRI_OK) {
    st = tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
                  "%s:%lld: has `%s`, but pairs are for the algorithms rm and dpo%s%s", tri_jsonl_path(in->r),
                  (long long)tri_jsonl_line(in->r), field, c.said.len ? "; " : "",
                  c.said.len ? c.said.data : "");
    if (c.command.len) tri_error_lines(c.command.data);
  }
  cure_free(&c);
  return st;
}

/* ---- checks of lines before a deck names their keys ---- */

static tri_line_parser looked_at(struct tri_jsonl *r, json_t *line, const tri_data_opt *opt) {
  return (tri_line_parser){.opt = opt,
                           .r = r,
                           .object = line,
                           .prompt_key = "prompt",
                           .answer_key = "answer",
                           .completion_key = "completion",
                           .chosen_key = "chosen",
                           .rejected_key = "rejected",
                           .label_key = "label",
                           .margin_key = "margin"};
}

tri_status tri_dataset_refuse_form(struct tri_jsonl *r, json_t *line, tri_data_kind kind, const char *what) {
  const tri_data_opt    opt = {.kind = kind, .from_deck = true};
  const tri_line_parser in = looked_at(r, line, &opt);

  return tri_foreign_refuse(&in, what, NULL, NULL);
}

tri_status tri_dataset_check_form(struct tri_jsonl *r, json_t *line, tri_data_kind kind) {
  const tri_data_opt    opt = {.kind = kind, .from_deck = true};
  const tri_line_parser in = looked_at(r, line, &opt);

  if (!find_list(&in, line, true) && !is_sharegpt(json_object_get(line, "chosen")) && !is_dialogue(&in) &&
      !is_alpaca(&in))
    return TRI_OK;
  return tri_foreign_refuse(&in, "is in the format of another program and must be converted", NULL, NULL);
}

/* Returns the first of ShareGPT's roles in a list of messages, or NULL. */
static const char *find_role(const json_t *list) {
  size_t        i;
  const json_t *m;

  json_array_foreach(list, i, m) {
    const char *role = json_string_value(json_object_get(m, "role"));
    for (const char *const *r = foreign_roles; role && *r; r++)
      if (!strcmp(role, *r)) return *r;
  }
  return NULL;
}

tri_status tri_foreign_check_roles(const tri_line_parser *in, const char *prompt, const char *answer) {
  static const char program[] =
      "def m: if type == \"array\" then map(.role |= (" ROLE "[.] // .)) else . end; ";
  bool        pair = in->opt->kind == TRI_DATA_PAIRS;
  const char *key[] = {prompt, pair ? in->chosen_key : answer, pair ? in->rejected_key : NULL};
  const char *role = find_role(in->conversation.messages);
  tri_text    fields = {0};
  cure        c = {0};
  tri_status  st = TRI_OK;

  if (!role) return TRI_OK;
  for (int i = 0; i < 3 && st == TRI_OK; i++)
    if (key[i] && json_object_get(in->object, key[i]) && is_plain(key[i]))
      st = tri_text_printf(&fields, "%s.%s |= m", fields.len ? " | " : "", key[i]);
  if (st == TRI_OK && fields.len) st = put_command(in, program, fields.data, &c);
  if (st == TRI_OK)
    st = tri_fail(
        __FILE__, __LINE__, __func__, TRI_EINPUT,
        "%s:%lld: `%s` has a message of the role %s, but roles are system, user, assistant and tool%s",
        tri_jsonl_path(in->r), (long long)tri_jsonl_line(in->r), answer ? answer : prompt, role,
        c.command.len ? "; convert them by" : "");
  if (c.command.len) tri_error_lines(c.command.data);
  tri_text_free(&fields);
  cure_free(&c);
  return st;
}

/* Tells whether a path has the form OWNER/NAME, is no folder here, and has no ending of a data file. */
static bool is_hub_name(const char *path) {
  static const char *const ending[] = {".jsonl",   ".json", ".ndjson", ".gz", ".zst",
                                       ".parquet", ".txt",  ".csv",    NULL};
  const char              *slash = strchr(path, '/');
  char                     owner[NAME_BYTES];

  if (!slash || slash == path || !slash[1] || strchr(slash + 1, '/') || path[0] == '.') return false;
  if (snprintf(owner, sizeof owner, "%.*s", (int)(slash - path), path) >= (int)sizeof owner) return false;
  for (const char *c = path; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("/_.-", *c)) return false;
  for (int i = 0; ending[i]; i++)
    if (tri_ends_with(path, ending[i])) return false;
  return !tri_file_exists(owner);
}

tri_status tri_foreign_unopened(const char *path, tri_status st) {
  tri_text lines = {0};

  if (st != TRI_EINPUT || tri_file_exists(path) || !is_hub_name(path)) return st;
  if (tri_text_printf(&lines,
                      "\n  download a data set of the Hugging Face Hub first, and then name its file of JSON "
                      "lines:\n  hf download %s --repo-type dataset --local-dir %s",
                      path, strchr(path, '/') + 1) == TRI_OK)
    tri_error_lines(lines.data);
  tri_text_free(&lines);
  return st;
}
