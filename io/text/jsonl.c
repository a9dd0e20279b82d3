/* jsonl.c - reading JSON lines. */
#include "jsonl.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "json_text.h"
#include "lines.h"

/* Objects and lists of one line at most (chosen: some 60 MB in jansson, which takes up to 230 bytes for the
 * two of "{}"). */
enum { MOST_NESTED = 1 << 18 };

struct tri_jsonl {
  tri_lines  *lines;
  const char *text; /* the last line [text_bytes], borrowed from lines */
  size_t      text_bytes;
  json_t     *object; /* of the last line; a list where `lists` allows one */
  bool        lists;
  int32_t    *id; /* [id_cap] */
  int64_t     id_cap;
};

/* lines: taken over. */
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

/* jansson takes the end of its text for that of a file. */
static void name_end(char *text) {
  static const char file[] = "end of file";
  char             *end = strlen(text) < sizeof file ? NULL : text + strlen(text) - (sizeof file - 1);

  if (end && !strcmp(end, file)) memcpy(end + sizeof file - sizeof "file", "line", 4);
}

tri_status tri_jsonl_next(tri_jsonl *r, json_t **object) {
  json_error_t error;

  *object = NULL;
  json_decref(r->object);
  r->object = NULL;
  TRI_TRY(tri_lines_next(r->lines, &r->text, &r->text_bytes));
  if (!r->text) return TRI_OK;
  if (tri_json_count_nested(r->text, r->text_bytes) > MOST_NESTED)
    TRI_FAIL(TRI_EINPUT, "%s:%lld: has more than %d objects and lists", tri_jsonl_path(r),
             (long long)tri_jsonl_line(r), MOST_NESTED);
  r->object =
      json_loadb(r->text, r->text_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
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

/* What follows walks text that jansson has accepted; `end` only guards it. */
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

/* Is the quoted text from p to end this key? */
static bool same_key(const char *p, const char *end, const char *key) {
  json_t *v = json_loadb(p, (size_t)(end - p), JSON_DECODE_ANY, NULL);
  bool    same = json_is_string(v) && !strcmp(json_string_value(v), key);

  json_decref(v);
  return same;
}

const char *tri_jsonl_raw(const tri_jsonl *r, const char *key, size_t *n_bytes) {
  const char *p = r->text, *end = p + r->text_bytes;

  *n_bytes = 0;
  if (!json_object_get(r->object, key)) return NULL;
  p = skip_space(p, end) + 1; /* behind the { */
  while ((p = skip_space(p, end)) < end && *p == '"') {
    const char *name = p, *name_end = tri_json_skip_string(p, end), *value;
    value = skip_space(skip_space(name_end, end) + 1, end); /* behind the : */
    p = skip_value(value, end);
    if (same_key(name, name_end, key)) {
      *n_bytes = (size_t)(p - value);
      return value;
    }
    p = skip_space(p, end) + 1; /* behind the , */
  }
  return NULL;
}

static bool is_one_of(const char *p, const char *end, const char *const *key) {
  for (; *key; key++)
    if (same_key(p, end, *key)) return true;
  return false;
}

tri_status tri_jsonl_put_members(const tri_jsonl *r, const char *const *but, tri_text *out) {
  const char *p = r->text, *end = p + r->text_bytes;

  p = skip_space(p, end) + 1; /* behind the { */
  while ((p = skip_space(p, end)) < end && *p == '"') {
    const char *name = p, *name_end = tri_json_skip_string(p, end);
    p = skip_value(skip_space(skip_space(name_end, end) + 1, end), end); /* behind the : */
    if (!is_one_of(name, name_end, but)) {
      TRI_TRY(tri_text_put(out, name, (size_t)(p - name)));
      TRI_TRY(tri_text_put(out, ", ", 2));
    }
    p = skip_space(p, end) + 1; /* behind the , */
  }
  return TRI_OK;
}

/* A list that is the whole line has no key. */
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
    TRI_FAIL(TRI_EINPUT, "%s:%lld: `%s` is empty", tri_jsonl_path(r), (long long)tri_jsonl_line(r), key);
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
