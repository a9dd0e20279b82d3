/* record.c - prints the record of a run as lines, and the differences of two records. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "record.h"

#include "base/columns.h"
#include "base/visible.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { FACT_BYTES = 1024 }; /* chosen: twice the flags of a build */

/* ---- reading ---- */

/* Returns the text of a member, fit for a terminal. "" if it is no text. */
static const char *text_of(const json_t *object, const char *name, char out[FACT_BYTES]) {
  const json_t *value = json_object_get(object, name);
  const char   *text = json_string_value(value);

  out[0] = 0;
  if (text) tri_visible(text, strlen(text), "", out, FACT_BYTES);
  return out;
}

static tri_status open_record(const char *text, json_t **out) {
  *out = json_loads(text ? text : "", 0, NULL);
  if (json_is_object(*out)) return TRI_OK;
  json_decref(*out);
  *out = json_object(); /* a record without facts */
  if (!*out) TRI_FAIL(TRI_ENOMEM, "no memory for a record");
  return TRI_OK;
}

/* ---- lines ---- */

/* Breaks lines at the width of a screen. */
static tri_status put_line(const char *lead, const char *name, const char *fact, tri_text *out) {
  tri_text   line = {0};
  tri_status st = TRI_OK;

  if (!fact[0]) return TRI_OK;
  TRI_TRY_DONE(tri_text_printf(&line, "%s%-12s %s", lead, name, fact));
  TRI_TRY_DONE(tri_text_wrap(line.data, TRI_SCREEN_COLUMNS, out));
  TRI_TRY_DONE(tri_text_put(out, "\n", 1));
done:
  tri_text_free(&line);
  return st;
}

static tri_status put_program(const json_t *r, const char *lead, tri_text *out) {
  const json_t *build = json_object_get(r, "build");
  char version[FACT_BYTES], commit[FACT_BYTES], type[FACT_BYTES], compiler[FACT_BYTES], flags[FACT_BYTES],
      fact[6 * FACT_BYTES];

  text_of(r, "version", version);
  text_of(r, "commit", commit);
  snprintf(fact, sizeof fact, "trireme %s%s%s", version, commit[0] ? ", commit " : "", commit);
  TRI_TRY(put_line(lead, "program", version[0] ? fact : "", out));
  snprintf(fact, sizeof fact, "%s, %s, %s", text_of(build, "compiler", compiler),
           text_of(build, "type", type), text_of(build, "flags", flags));
  return put_line(lead, "build", compiler[0] ? fact : "", out);
}

/* Appends the members of an object of texts, such as "f32 avx512, bf16 amx", with `is` between name and
 * value. */
static tri_status put_members(const json_t *object, const char *is, const char *between, tri_text *out) {
  const char *name;
  json_t     *value;
  char        shown[FACT_BYTES], fact[FACT_BYTES];
  size_t      before = out->len;

  json_object_foreach((json_t *)(uintptr_t)object, name, value) {
    if (!json_is_string(value)) continue;
    tri_visible(name, strlen(name), "", shown, sizeof shown);
    TRI_TRY(tri_text_printf(out, "%s%s%s%s", out->len > before ? between : "", shown, is,
                            text_of(object, name, fact)));
  }
  return TRI_OK;
}

static tri_status put_members_line(const json_t *r, const char *member, const char *is, const char *between,
                                   const char *lead, tri_text *out) {
  tri_text   facts = {0};
  tri_status st = put_members(json_object_get(r, member), is, between, &facts);

  if (st == TRI_OK && facts.len) st = put_line(lead, member, facts.data, out);
  tri_text_free(&facts);
  return st;
}

static tri_status put_hosts(const json_t *r, const char *lead, tri_text *out) {
  size_t  i;
  json_t *host;

  json_array_foreach(json_object_get(r, "hosts"), i, host) {
    long long nodes = json_integer_value(json_object_get(host, "nodes")),
              ranks = json_integer_value(json_object_get(host, "ranks"));
    char node[FACT_BYTES], cpu[FACT_BYTES], device[FACT_BYTES], fact[4 * FACT_BYTES], more[48] = "";
    if (nodes > 1) snprintf(more, sizeof more, " and %lld like it", nodes - 1);
    snprintf(fact, sizeof fact, "%s%s: %lld rank%s, %s, %s", text_of(host, "node", node), more, ranks,
             ranks == 1 ? "" : "s", text_of(host, "device", device),
             text_of(host, "cpu", cpu)[0] ? cpu : "cpu not named");
    TRI_TRY(put_line(lead, "node", node[0] ? fact : "", out));
  }
  return TRI_OK;
}

static tri_status put_libraries(const json_t *r, const char *lead, tri_text *out) {
  size_t     i;
  json_t    *row;
  tri_text   facts = {0};
  tri_status st = TRI_OK;

  json_array_foreach(json_object_get(r, "libraries"), i, row) {
    char name[FACT_BYTES], built[FACT_BYTES], loaded[FACT_BYTES];
    text_of(row, "built", built);
    text_of(row, "loaded", loaded);
    if (!text_of(row, "name", name)[0] || (!built[0] && !loaded[0])) continue;
    TRI_TRY_DONE(tri_text_printf(&facts, "%s%s %s", facts.len ? ", " : "", name, loaded[0] ? loaded : built));
    if (built[0] && loaded[0] && !strstr(loaded, built))
      TRI_TRY_DONE(tri_text_printf(&facts, " (built with %s)", built));
  }
  if (facts.len) TRI_TRY_DONE(put_line(lead, "libraries", facts.data, out));
done:
  tri_text_free(&facts);
  return st;
}

tri_status tri_record_lines(const char *record, const char *lead, tri_text *out) {
  json_t    *r;
  char       fact[FACT_BYTES];
  tri_status st = TRI_OK;

  TRI_TRY(open_record(record, &r));
  TRI_TRY_DONE(put_program(r, lead, out));
  TRI_TRY_DONE(put_members_line(r, "products", " ", ", ", lead, out));
  TRI_TRY_DONE(put_line(lead, "collectives", text_of(r, "collectives", fact), out));
  TRI_TRY_DONE(put_hosts(r, lead, out));
  TRI_TRY_DONE(put_libraries(r, lead, out));
  TRI_TRY_DONE(put_members_line(r, "environment", "=", " ", lead, out));
done:
  json_decref(r);
  return st;
}

/* ---- differences ---- */

/* A fact missing in one of the records is no difference. */
static tri_status compare(const char *name, const char *before, const char *now, tri_text *out) {
  if (!before[0] || !now[0] || !strcmp(before, now)) return TRI_OK;
  return tri_text_printf(out, "\n  %s: %s -> %s", name, before, now);
}

static tri_status compare_member(const char *said, const json_t *before, const json_t *now, const char *name,
                                 tri_text *out) {
  char a[FACT_BYTES], b[FACT_BYTES];

  return compare(said, text_of(before, name, a), text_of(now, name, b), out);
}

static tri_status compare_products(const json_t *before, const json_t *now, tri_text *out) {
  const json_t *a = json_object_get(before, "products"), *b = json_object_get(now, "products");
  const char   *name;
  json_t       *value;

  json_object_foreach((json_t *)(uintptr_t)b, name, value) {
    char said[FACT_BYTES];
    snprintf(said, sizeof said, "products of %s", name);
    TRI_TRY(compare_member(!strcmp(name, "library")   ? "instructions of the library"
                           : !strcmp(name, "kernels") ? name
                                                      : said,
                           a, b, name, out));
  }
  return TRI_OK;
}

/* Appends each kind of processor once, in the order of the hosts. */
static tri_status put_processors(const json_t *r, tri_text *out) {
  size_t  i;
  json_t *host;

  json_array_foreach(json_object_get(r, "hosts"), i, host) {
    char cpu[FACT_BYTES];
    if (!text_of(host, "cpu", cpu)[0] || (out->len && strstr(out->data, cpu))) continue;
    TRI_TRY(tri_text_printf(out, "%s%s", out->len ? ", " : "", cpu));
  }
  return TRI_OK;
}

static tri_status compare_processors(const json_t *before, const json_t *now, tri_text *out) {
  tri_text   a = {0}, b = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(put_processors(before, &a));
  TRI_TRY_DONE(put_processors(now, &b));
  TRI_TRY_DONE(compare("processors", a.len ? a.data : "", b.len ? b.data : "", out));
done:
  tri_text_free(&a);
  tri_text_free(&b);
  return st;
}

/* Returns the version loaded at run time, else the version of the build. */
static const char *version_of(const json_t *r, const char *library, char out[FACT_BYTES]) {
  size_t  i;
  json_t *row;

  json_array_foreach(json_object_get(r, "libraries"), i, row) {
    if (strcmp(text_of(row, "name", out), library) != 0) continue;
    return text_of(row, "loaded", out)[0] ? out : text_of(row, "built", out);
  }
  out[0] = 0;
  return out;
}

static tri_status compare_libraries(const json_t *before, const json_t *now, tri_text *out) {
  static const char *const library[] = {"MPI", "oneDNN", "OpenBLAS", "CUDA", "NCCL", "cuDNN", "libc"};
  char                     a[FACT_BYTES], b[FACT_BYTES];

  for (size_t i = 0; i < sizeof library / sizeof *library; i++)
    TRI_TRY(compare(library[i], version_of(before, library[i], a), version_of(now, library[i], b), out));
  return TRI_OK;
}

tri_status tri_record_differ(const char *before, const char *now, tri_text *out) {
  json_t    *a = NULL, *b = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(open_record(before, &a));
  TRI_TRY_DONE(open_record(now, &b));
  TRI_TRY_DONE(compare_member("program", a, b, "version", out));
  TRI_TRY_DONE(compare_member("commit", a, b, "commit", out));
  TRI_TRY_DONE(
      compare_member("compiler", json_object_get(a, "build"), json_object_get(b, "build"), "compiler", out));
  TRI_TRY_DONE(
      compare_member("flags", json_object_get(a, "build"), json_object_get(b, "build"), "flags", out));
  TRI_TRY_DONE(compare_products(a, b, out));
  if (json_integer_value(json_object_get(a, "ranks")) == json_integer_value(json_object_get(b, "ranks")))
    TRI_TRY_DONE(compare_member("collectives", a, b, "collectives", out)); /* one rank has none */
  TRI_TRY_DONE(compare_processors(a, b, out));
  TRI_TRY_DONE(compare_libraries(a, b, out));
done:
  json_decref(a);
  json_decref(b);
  return st;
}
