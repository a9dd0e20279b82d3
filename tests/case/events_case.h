/* events_case.h - shared by the tests of event files: an independent reader, and a comparison with
 * metrics.jsonl.
 *
 * Judges: CRCs computed bit by bit, TensorFlow's format field by field, and jansson's reading of
 * metrics.jsonl. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_EVENTS_CASE_H
#define TRI_TESTS_EVENTS_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/host_memory.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EVENTS_MOST = 2048 };
#define EVENTS_FOREIGN "events.out.tfevents.1700000000.node7.12.0" /* from another program */

/* ---- an independent reader ---- */

static inline uint32_t events_crc_by_bits(const unsigned char *p, size_t n) {
  uint32_t crc = ~0u;

  for (size_t i = 0; i < 8 * n; i++) {
    uint32_t bit = (crc ^ (uint32_t)p[i / 8] >> i % 8) & 1;
    crc = crc >> 1 ^ (bit ? 0x82f63b78u : 0);
  }
  return ~crc;
}

static inline uint64_t events_little(const unsigned char *p, int n) {
  return n ? p[0] | events_little(p + 1, n - 1) << 8 : 0;
}

static inline bool events_has_crc(const unsigned char *p, size_t n, const unsigned char *at) {
  uint32_t crc = events_crc_by_bits(p, n);

  return (uint32_t)events_little(at, 4) == (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u);
}

typedef struct events_field {
  int                  number;
  uint64_t             value; /* the number, or the count of bytes */
  const unsigned char *bytes;
} events_field;

/* Reads the field at *at and moves *at past it. */
static inline events_field events_next(const unsigned char **at, const unsigned char *end) {
  events_field f = {0};
  uint64_t     v[2] = {0, 0};
  int          wire = -1;

  for (int k = 0; k < 2; k++) {
    if (k == 1) f.number = (int)(v[0] >> 3), wire = v[0] & 7;
    if (k == 1 && (wire == 1 || wire == 5)) {
      assert_true(end - *at >= (wire == 1 ? 8 : 4));
      f.value = events_little(*at, wire == 1 ? 8 : 4);
      *at += wire == 1 ? 8 : 4;
      break;
    }
    for (int shift = 0;; shift += 7) {
      assert_true(*at < end && shift < 64);
      v[k] |= (uint64_t)(**at & 0x7f) << shift;
      if (!(*(*at)++ & 0x80)) break;
    }
    f.value = v[1];
  }
  assert_true(wire == 0 || wire == 1 || wire == 2 || wire == 5);
  if (wire == 2) {
    f.bytes = *at;
    assert_true(f.value <= (uint64_t)(end - *at));
    *at += f.value;
  }
  assert_true(*at <= end);
  return f;
}

typedef struct events_scalar {
  char    tag[64];
  int64_t step;
  double  wall_s;
  float   value;
} events_scalar;
typedef struct events_reading {
  int           n_event, n_start, n_text;
  int           n;
  events_scalar s[EVENTS_MOST];
  char          text[4096]; /* the latest event's */
} events_reading;

/* Reads a Summary.Value. */
static inline void events_take_value(events_reading *r, const unsigned char *at, const unsigned char *end,
                                     int64_t step, double wall_s) {
  events_scalar s = {.step = step, .wall_s = wall_s};
  bool          is_scalar = false;

  while (at < end) {
    events_field f = events_next(&at, end);
    uint32_t     bits = (uint32_t)f.value;
    if (f.number == 1) snprintf(s.tag, sizeof s.tag, "%.*s", (int)f.value, (const char *)f.bytes);
    if (f.number == 2) memcpy(&s.value, &bits, sizeof bits);
    is_scalar = is_scalar || f.number == 2;
    if (f.number != 8) continue;
    for (const unsigned char *in = f.bytes, *stop = in + f.value; in < stop;) {
      events_field g = events_next(&in, stop);
      if (g.number == 8) snprintf(r->text, sizeof r->text, "%.*s", (int)g.value, (const char *)g.bytes);
      r->n_text += g.number == 8;
    }
  }
  if (!is_scalar) return;
  assert_true(r->n < EVENTS_MOST);
  r->s[r->n++] = s;
}

static inline void events_take(events_reading *r, const unsigned char *at, const unsigned char *end) {
  double  wall_s = NAN;
  int64_t step = 0;

  while (at < end) {
    events_field f = events_next(&at, end);
    if (f.number == 1) memcpy(&wall_s, &f.value, sizeof wall_s);
    if (f.number == 2) step = (int64_t)f.value;
    if (f.number == 3) assert_true(r->n_event == 0 && f.value == 13 && !memcmp(f.bytes, "brain.Event:2", 13));
    r->n_start += f.number == 7;
    if (f.number != 5) continue;
    for (const unsigned char *in = f.bytes, *stop = in + f.value; in < stop;) {
      events_field g = events_next(&in, stop);
      assert_int_equal(g.number, 1);
      events_take_value(r, g.bytes, g.bytes + g.value, step, wall_s);
    }
  }
  r->n_event++;
}

/* Reads the whole file, which must end with a complete record. */
static inline void events_read(const char *path, events_reading *r) {
  char                *text;
  size_t               n;
  const unsigned char *at, *end;

  memset(r, 0, sizeof *r);
  assert_int_equal(tri_file_read(path, 1 << 24, &text, &n), TRI_OK);
  for (at = (const unsigned char *)text, end = at + n; at < end;) {
    size_t size = end - at >= 16 ? (size_t)events_little(at, 8) : 0;
    assert_true(size > 0 && size <= (size_t)(end - at) - 16);
    assert_true(events_has_crc(at, 8, at + 8) && events_has_crc(at + 12, size, at + 12 + size));
    events_take(r, at + 12, at + 12 + size);
    at += size + 16;
  }
  tri_host_free((void **)&text);
}

/* ---- the folder ---- */

/* Returns the newest of our files. At most one other may exist, the one before it, and it must hold only the
 * version. */
static inline const char *events_file(const char *folder) {
  static events_reading r;
  static char           path[512];
  char                  older[512] = "";
  struct dirent        *e;
  int                   n = 0;
  DIR                  *d = opendir(folder);

  assert_non_null(d);
  path[0] = '\0';
  while ((e = readdir(d)) != NULL) {
    char at[512];
    if (e->d_name[0] == '.' || !strcmp(e->d_name, EVENTS_FOREIGN)) continue;
    snprintf(at, sizeof at, "%s/%s", folder, e->d_name);
    n++;
    snprintf(older, sizeof older, "%s", strcmp(at, path) > 0 ? path : at);
    if (strcmp(at, path) > 0) snprintf(path, sizeof path, "%s", at);
  }
  closedir(d);
  assert_true(n == 1 || n == 2);
  if (n == 2) events_read(older, &r);
  if (n == 2) assert_true(r.n_event == 1 && r.n == 0 && r.n_start == 0);
  return path;
}

/* ---- against metrics.jsonl ---- */

/* Returns the index of the scalar with this name and step, or -1. A tag is a prefix, a slash and the name.
 * Two such scalars are an error. */
static inline int events_find(const events_reading *r, const char *name, int64_t step) {
  int at = -1;

  for (int i = 0; i < r->n; i++) {
    const char *slash = strchr(r->s[i].tag, '/');
    assert_non_null(slash);
    if (r->s[i].step != step || strcmp(slash + 1, name)) continue;
    assert_int_equal(at, -1);
    at = i;
  }
  return at;
}

static inline int events_check_line(const events_reading *r, const char *text, size_t length) {
  json_t     *object = json_loadb(text, length, 0, NULL), *value;
  int64_t     step = json_integer_value(json_object_get(object, "step"));
  const char *name;
  int         n = 0;

  assert_non_null(object);
  json_object_foreach(object, name, value) {
    if (!strcmp(name, "step") || json_is_string(value)) continue;
    int at = events_find(r, name, step);
    assert_true(at != -1);
    assert_true(r->s[at].wall_s == json_number_value(json_object_get(object, "time_unix_s")));
    if (json_is_null(value))
      assert_true(isnan(r->s[at].value));
    else
      assert_true(r->s[at].value == (float)json_number_value(value));
    n++;
  }
  json_decref(object);
  return n;
}

/* Checks that the newest file holds the numbers of metrics.jsonl and nothing else. Returns their count. */
static inline int events_check(const char *folder, const char *lines) {
  static events_reading r;
  char                 *text, *end;
  size_t                n;
  int                   sum = 0;

  events_read(events_file(folder), &r);
  assert_int_equal(tri_file_read(lines, 1 << 24, &text, &n), TRI_OK);
  for (char *at = text; (end = strchr(at, '\n')) != NULL; at = end + 1)
    sum += events_check_line(&r, at, (size_t)(end - at));
  tri_host_free((void **)&text);
  assert_int_equal(r.n_start, 1);
  assert_int_equal(r.n, sum);
  return sum;
}

#endif
