/* jsonl.c - reads JSON lines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonl.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"
#include "json_odd.h"
#include "json_text.h"
#include "lines.h"

/* The limit on objects, lists and replaced values in one line (chosen: some 60 MB in jansson, with up to 230
 * bytes for the two bytes of "{}"). */
enum { MOST_NESTED = 1 << 18 };

struct tri_jsonl {
  tri_lines  *lines;
  const char *text; /* [text_bytes] the last line, borrowed from `lines` */
  size_t      text_bytes;
  /* [text_bytes] The same line as jansson reads it. It is `text` or `copy`. */
  const char *plain;
  /* [copy_cap] The line with {} in place of the values in `odds`. */
  char         *copy;
  int64_t       copy_cap;
  tri_json_odds odds;
  json_t       *object; /* object of the last line, or a list if `lists` */
  bool          lists;
  int32_t      *id; /* [id_cap] */
  int64_t       id_cap;
};

/* Takes over `lines`. */
static tri_status make(tri_lines *lines, tri_jsonl **out) {
  tri_status st = TRI_ALLOC(*out, 1);

  if (st == TRI_OK)
    (*out)->lines = lines;
  else
    tri_lines_close(&lines);
  return st;
}

tri_status tri_jsonl_open_part(const char *path, int64_t begin, int64_t end, tri_jsonl **out) {
  tri_lines *lines;

  *out = NULL;
  TRI_TRY(tri_lines_open(path, begin, end, &lines));
  return make(lines, out);
}

tri_status tri_jsonl_open(const char *path, tri_jsonl **out) {
  return tri_jsonl_open_part(path, 0, INT64_MAX, out);
}

tri_status tri_jsonl_open_stdin(tri_jsonl **out) {
  tri_lines *lines;

  *out = NULL;
  TRI_TRY(tri_lines_open_stdin(&lines));
  return make(lines, out);
}

void tri_jsonl_close(tri_jsonl **r) {
  if (!*r) return;
  tri_lines_close(&(*r)->lines);
  json_decref((*r)->object);
  TRI_FREE((*r)->copy);
  TRI_FREE((*r)->odds.odd);
  TRI_FREE((*r)->id);
  TRI_FREE(*r);
}

void tri_jsonl_limit(tri_jsonl *r, int64_t bytes, const char *name) {
  tri_lines_limit(r->lines, bytes, name);
}

void tri_jsonl_allow_lists(tri_jsonl *r) { r->lists = true; }

const char *tri_jsonl_path(const tri_jsonl *r) { return tri_lines_path(r->lines); }
int64_t     tri_jsonl_taken(const tri_jsonl *r) { return tri_lines_taken(r->lines); }
int64_t     tri_jsonl_line(tri_jsonl *r) { return tri_lines_number(r->lines); }

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static const char *skip_space(const char *p, const char *end) {
  while (p < end && is_space(*p)) p++;
  return p;
}

/* jansson calls the end of its text the end of file. Here it is the end of a line. */
static void name_end(char *text) {
  static const char file[] = "end of file";
  char             *end = strlen(text) < sizeof file ? NULL : text + strlen(text) - (sizeof file - 1);

  if (end && !strcmp(end, file)) memcpy(end + sizeof file - sizeof "file", "line", 4);
}

static json_t *load(const char *text, size_t n, json_error_t *error) {
  return json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, error);
}

/* Parses the last line. If that fails, parses it again with {} in place of the values that jansson cannot
 * hold. */
static tri_status parse(tri_jsonl *r, json_error_t *error) {
  int64_t nested = tri_json_count_nested(r->text, r->text_bytes);
  bool    changed = false;

  r->plain = r->text;
  r->odds.n = 0;
  if (nested <= MOST_NESTED) r->object = load(r->text, r->text_bytes, error);
  if (nested <= MOST_NESTED && !r->object) {
    TRI_TRY(TRI_GROW(r->copy, r->copy_cap, (int64_t)r->text_bytes + 1));
    memcpy(r->copy, r->text, r->text_bytes);
    r->copy[r->text_bytes] = 0;
    TRI_TRY(tri_json_replace_odd(r->copy, r->text_bytes, &r->odds, &changed));
    if (changed) r->plain = r->copy;
    nested += r->odds.n;
  }
  if (nested > MOST_NESTED)
    TRI_FAIL(TRI_EINPUT, "%s:%lld: has more than %d objects and lists%s", tri_jsonl_path(r),
             (long long)tri_jsonl_line(r), MOST_NESTED,
             r->odds.n ? ", or numbers that cannot be read (NaN, Infinity, beyond 64 bits)" : "");
  if (changed) r->object = load(r->plain, r->text_bytes, error);
  return TRI_OK;
}

tri_status tri_jsonl_next(tri_jsonl *r, json_t **object) {
  json_error_t error;

  *object = NULL;
  json_decref(r->object);
  r->object = NULL;
  TRI_TRY(tri_lines_next(r->lines, &r->text, &r->text_bytes));
  if (!r->text) return TRI_OK;
  TRI_TRY(parse(r, &error));
  if (!r->object) name_end(error.text);
  if (!r->object)
    TRI_FAIL(TRI_EINPUT, "%s:%lld: not JSON: %s (column %d)", tri_jsonl_path(r), (long long)tri_jsonl_line(r),
             error.text, error.column);
  if (!json_is_object(r->object) && !(r->lists && json_is_array(r->object)))
    TRI_FAIL(TRI_EINPUT, "%s:%lld: a line must be a JSON object, {...}%s", tri_jsonl_path(r),
             (long long)tri_jsonl_line(r), r->lists ? ", or a list, [...]" : "");
  *object = r->object;
  return TRI_OK;
}

tri_status tri_jsonl_place(tri_jsonl *r, tri_status st) {
  tri_text said = {0};

  if (st != TRI_EINPUT) return st;
  TRI_TRY(tri_text_printf(&said, "%s:%lld: %s", tri_jsonl_path(r), (long long)tri_jsonl_line(r),
                          tri_error_message()));
  tri_error_set(st, said.data);
  tri_text_free(&said);
  return st;
}

const char *tri_jsonl_fields(const tri_jsonl *r, char *out, size_t bytes) {
  void  *at = json_object_iter(r->object);
  size_t used = (size_t)snprintf(out, bytes, at ? "its fields are" : "it has no fields");

  for (; at; at = json_object_iter_next(r->object, at)) {
    const char *key = json_object_iter_key(at);
    bool        first = used == strlen("its fields are");
    if (used + strlen(key) + sizeof ", ..." >= bytes) {
      snprintf(out + used, bytes - used, "%s", first ? " ..." : ", ...");
      break;
    }
    used += (size_t)snprintf(out + used, bytes - used, "%s %s", first ? "" : ",", key);
  }
  return out;
}

/* ---- values by their names ---- */

/* Finds the member under the first n bytes of a name. */
static json_t *find_part(json_t *object, const char *name, size_t n) {
  const char *key;
  json_t     *v;

  json_object_foreach(object, key, v) {
    if (strlen(key) == n && !memcmp(key, name, n)) return v;
  }
  return NULL;
}

/* Finds the member of an object under a name, or by a path. A path is the name of a member, a dot, and the
 * path inside that member. NULL: there is none. */
static json_t *find(json_t *object, const char *path) {
  const char *dot = strchr(path, '.');
  json_t     *v = json_object_get(object, path);

  if (v || !dot) return v;
  v = find_part(object, path, (size_t)(dot - path));
  return v ? find(v, dot + 1) : NULL;
}

tri_status tri_jsonl_name_path(tri_jsonl *r, const char *path) {
  json_t *v = strchr(path, '.') ? find(r->object, path) : NULL;

  if (!v || json_object_get(r->object, path)) return TRI_OK;
  return json_object_set(r->object, path, v) ? TRI_ENOMEM : TRI_OK;
}

/* Appends "NAME.". false: it does not fit. */
static bool put_name(char *out, size_t bytes, size_t *used, const char *name) {
  size_t n = strlen(name);

  if (*used + n + 2 > bytes) return false;
  memcpy(out + *used, name, n);
  memcpy(out + *used + n, ".", 2);
  *used += n + 1;
  return true;
}

/* Finds an inner member with this name exactly `level` levels below the members of `object`. Writes its path
 * to out + used, with a dot after each name. */
static bool find_inner(json_t *object, const char *name, int level, char *out, size_t bytes, size_t used) {
  const char *key;
  json_t     *v;

  json_object_foreach(object, key, v) {
    size_t at = used;
    if (!json_is_object(v) || !put_name(out, bytes, &at, key)) continue;
    if (level == 0 && json_object_get(v, name) && put_name(out, bytes, &at, name)) return true;
    if (level > 0 && find_inner(v, name, level - 1, out, bytes, at)) return true;
  }
  out[used] = 0;
  return false;
}

const char *tri_jsonl_inner(const tri_jsonl *r, const char *key, char *out, size_t bytes) {
  enum { LEVELS = 4, PATH_BYTES = 160 }; /* chosen, deeper than lines in use */
  const char *last = strrchr(key, '.') ? strrchr(key, '.') + 1 : key;
  const char *also[] = {last, strcmp(last, "answer") ? last : "ground_truth"};
  char        path[PATH_BYTES];

  out[0] = 0;
  for (int i = 0; i < 2; i++)
    for (int level = 0; level < LEVELS; level++) {
      if (!find_inner(r->object, also[i], level, path, sizeof path, 0)) continue;
      snprintf(out, bytes, " (`%.*s` exists)", (int)strlen(path) - 1, path);
      return out;
    }
  return out;
}

/* The functions below walk text that jansson has accepted. `end` is only a safeguard. */
static const char *skip_value(const char *p, const char *end) {
  int depth = 0;

  while (p < end) {
    if (*p == '"') {
      p = tri_json_skip_string(p, end);
    } else {
      if (depth == 0 && (*p == ',' || *p == '}' || is_space(*p))) return p;
      depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
      p++;
    }
    if (depth == 0 && (p[-1] == '"' || p[-1] == '}' || p[-1] == ']')) return p;
  }
  return end;
}

/* Says if the quoted text from p to end is this key of n bytes. */
static bool same_key(const char *p, const char *end, const char *key, size_t n) {
  json_t *v = json_loadb(p, (size_t)(end - p), JSON_DECODE_ANY, NULL);
  bool    same = json_is_string(v) && json_string_length(v) == n && !memcmp(json_string_value(v), key, n);

  json_decref(v);
  return same;
}

/* One member of an object, by its places in the text. */
typedef struct raw_member {
  const char *name, *name_end, *value, *value_end;
} raw_member;

/* Finds the next member. `p` stands after the { or a comma. false: there is none. */
static bool next_raw(const char *p, const char *end, raw_member *m) {
  m->name = skip_space(p, end);
  if (m->name >= end || *m->name != '"') return false;
  m->name_end = tri_json_skip_string(m->name, end);
  m->value = skip_space(skip_space(m->name_end, end) + 1, end); /* after the colon */
  m->value_end = skip_value(m->value, end);
  return true;
}

/* Finds the value under the n bytes of a key in the object that begins at p. *behind: the end of the value.
 * NULL: there is none. */
static const char *find_raw(const char *p, const char *end, const char *key, size_t n, const char **behind) {
  raw_member m;

  if (p >= end || *p != '{') return NULL;
  for (p++; next_raw(p, end, &m); p = skip_space(m.value_end, end) + 1) {
    *behind = m.value_end;
    if (same_key(m.name, m.name_end, key, n)) return m.value;
  }
  return NULL;
}

const char *tri_jsonl_raw(const tri_jsonl *r, const char *key, size_t *n_bytes) {
  const char *end = r->plain + r->text_bytes, *at = skip_space(r->plain, end), *behind = end;

  *n_bytes = 0;
  if (!find(r->object, key)) return NULL;
  for (const char *dot, *found; at; at = found, key = dot + 1) {
    found = find_raw(at, end, key, strlen(key), &behind);
    dot = strchr(key, '.');
    if (found) {
      *n_bytes = (size_t)(behind - found);
      return r->text + (found - r->plain);
    }
    if (!dot) return NULL;
    found = find_raw(at, end, key, (size_t)(dot - key), &behind);
  }
  return NULL;
}

static bool is_one_of(const raw_member *m, const char *const *key) {
  for (; *key; key++)
    if (same_key(m->name, m->name_end, *key, strlen(*key))) return true;
  return false;
}

tri_status tri_jsonl_put_members(const tri_jsonl *r, const char *const *but, tri_text *out) {
  const char *end = r->plain + r->text_bytes, *p = skip_space(r->plain, end) + 1; /* after the { */
  raw_member  m;

  for (; next_raw(p, end, &m); p = skip_space(m.value_end, end) + 1) {
    if (is_one_of(&m, but)) continue;
    TRI_TRY(tri_text_put(out, r->text + (m.name - r->plain), (size_t)(m.value_end - m.name)));
    TRI_TRY(tri_text_put(out, ", ", 2));
  }
  return TRI_OK;
}

bool tri_jsonl_has_odd(const tri_jsonl *r) { return r->odds.n > 0; }

tri_status tri_jsonl_refuse_odd(tri_jsonl *r, const char *key) {
  enum { SHOWN = 40 }; /* chosen, bytes of the value */
  size_t      n_value = 0;
  const char *value = r->odds.n ? tri_jsonl_raw(r, key, &n_value) : NULL;

  for (int64_t i = 0; value && i < r->odds.n; i++) {
    const char *odd = r->text + r->odds.odd[i].at;
    size_t      n = r->odds.odd[i].n;
    if (odd < value || odd + n > value + n_value) continue;
    TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s`%s %.*s%s %s", tri_jsonl_path(r), (long long)tri_jsonl_line(r), key,
             odd == value ? " =" : " has an unreadable value.", (int)(n < SHOWN ? n : SHOWN), odd,
             n < SHOWN ? "" : "...", tri_json_odd_cure(odd, n));
  }
  return TRI_OK;
}

/* Fails on entry i of a list. A list that is the whole line has no key. */
static tri_status fail_entry(tri_jsonl *r, const char *key, size_t i, const char *why) {
  const char *at = tri_jsonl_path(r);
  long long   line = (long long)tri_jsonl_line(r);

  if (json_is_array(r->object)) TRI_FAIL(TRI_EINPUT, "%s:%lld: entry %zu %s", at, line, i, why);
  TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s`[%zu] %s", at, line, key, i, why);
}

tri_status tri_jsonl_ids(tri_jsonl *r, const char *key, int32_t vocab, const int32_t **id, int64_t *n) {
  bool          bare = json_is_array(r->object);
  const json_t *list = bare ? r->object : json_object_get(r->object, key);
  size_t        count = json_array_size(list);
  char          why[96];

  *id = NULL;
  *n = 0;
  if (!json_is_array(list))
    TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s` must be a list of token ids", tri_jsonl_path(r),
             (long long)tri_jsonl_line(r), key);
  if (!count && !bare)
    TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s` is empty, with 0 token ids", tri_jsonl_path(r),
             (long long)tri_jsonl_line(r), key);
  if (count > INT32_MAX)
    TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s` is too long", tri_jsonl_path(r), (long long)tri_jsonl_line(r), key);
  if ((int64_t)count > r->id_cap) {
    TRI_FREE(r->id);
    r->id_cap = 0;
    TRI_TRY(TRI_ALLOC(r->id, 2 * count));
    r->id_cap = 2 * (int64_t)count;
  }
  for (size_t i = 0; i < count; i++) {
    const json_t *v = json_array_get(list, i);
    int64_t       value = json_integer_value(v);
    if (!json_is_integer(v)) return fail_entry(r, key, i, "is not a whole number");
    if (value < 0 || value >= vocab) {
      snprintf(why, sizeof why, "= %lld is not in the vocabulary, 0 .. %d", (long long)value, vocab - 1);
      return fail_entry(r, key, i, why);
    }
    r->id[i] = (int32_t)value;
  }
  *id = r->id;
  *n = (int64_t)count;
  return TRI_OK;
}
