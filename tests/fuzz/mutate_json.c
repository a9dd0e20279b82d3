/* mutate_json.c - changes libFuzzer's inputs of JSON by whole values.
 *
 * An input is JSON up to a byte 0x01 or its end. The rest stays. Half of the changes are libFuzzer's own, by
 * bytes. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);

enum {
  MOST_PLACES = 1 << 12,
  FIRST = 16
}; /* chosen, only the first members count, or a vocabulary would crowd out all else */

/* The place of a value in its parent. */
typedef struct place {
  json_t     *parent;
  const char *key; /* key in an object, borrowed, or NULL in a list */
  size_t      at;
} place;

static place  places[MOST_PLACES];
static size_t n_places;

static void add(json_t *parent, const char *key, size_t at) {
  if (n_places < MOST_PLACES) places[n_places++] = (place){parent, key, at};
}

static void walk(json_t *v) {
  const char *key;
  json_t     *inner;
  size_t      at;

  at = 0;
  json_object_foreach(v, key, inner) {
    if (at++ == FIRST) break;
    add(v, key, 0);
    walk(inner);
  }
  json_array_foreach(v, at, inner) {
    if (at == FIRST) break;
    add(v, NULL, at);
    walk(inner);
  }
}

static json_t *get(const place *p) {
  return p->key ? json_object_get(p->parent, p->key) : json_array_get(p->parent, p->at);
}

/* Sets the value at a place. Takes ownership of v. */
static void set(const place *p, json_t *v) {
  if (p->key)
    json_object_set_new(p->parent, p->key, v);
  else
    json_array_set_new(p->parent, p->at, v);
}

/* Returns a value of another type, or one at a limit of its type. */
static json_t *other_value(unsigned which, const json_t *old) {
  static const char *const text[] = {
      "null", "true", "false", "0",  "-1",   "2147483648", "9223372036854775807",
      "0.5",  "\"\"", "[]",    "{}", "[[]]", "[null]",     "{\"type\": \"Sequence\"}"};
  enum { N = sizeof text / sizeof *text };

  which %= N + 2;
  if (which >= N && json_is_integer(old)) /* may wrap */
    return json_integer((json_int_t)((uint64_t)json_integer_value(old) + (which == N ? 1 : UINT64_MAX)));
  return json_loads(text[which % N], JSON_DECODE_ANY, NULL);
}

/* Makes one change to one value, so that no other place loses its parent. */
static void change(unsigned what, unsigned which, unsigned from) {
  const place *p = &places[which % n_places], *q = &places[from % n_places];
  json_t      *v = get(p);

  if (what % 5 == 0) /* another value instead */
    set(p, json_deep_copy(get(q)));
  else if (what % 5 == 1)
    set(p, other_value(from, v));
  else if (what % 5 == 2 && p->key)
    json_object_del(p->parent, p->key);
  else if (what % 5 == 2)
    json_array_remove(p->parent, p->at);
  else if (what % 5 == 3 && !p->key) /* twice */
    json_array_insert_new(p->parent, p->at, json_deep_copy(v));
  else if (q->key && json_is_object(p->parent)) /* under another key too */
    json_object_set_new(p->parent, q->key, json_deep_copy(v));
  else if (json_is_array(v)) /* a member more */
    json_array_append_new(v, json_deep_copy(get(q)));
}

static unsigned draw(uint64_t *state) { /* Knuth's MMIX */
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(*state >> 33);
}

/* Returns the changed JSON, to be freed, or NULL if `text` [n] is not JSON. */
static char *changed(const char *text, size_t n, uint64_t state) {
  json_t *root = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
  char   *out = NULL;

  for (unsigned i = draw(&state) % 3 + 1; root && i > 0; i--) {
    unsigned what = draw(&state), which = draw(&state), from = draw(&state);
    n_places = 0;
    walk(root);
    if (n_places) change(what, which, from);
  }
  if (root) out = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  return out;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed) {
  const uint8_t *mark = n ? memchr(data, 1, n) : NULL;
  size_t         used = mark ? (size_t)(mark - data) : n, rest = n - used;
  uint64_t       state = seed;
  char          *text = draw(&state) % 2 ? changed((const char *)data, used, state) : NULL;
  size_t         made = text ? strlen(text) : 0;

  if (text && made + rest <= most) {
    memmove(data + made, data + used, rest);
    memcpy(data, text, made);
    n = made + rest;
  } else {
    n = LLVMFuzzerMutate(data, n, most);
  }
  free(text);
  return n;
}
