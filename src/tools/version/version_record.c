/* version_record.c - makes the record of a run (src/record) from its ranks. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "version_record.h"

#include "about.h"
#include "base/choice.h"
#include "base/host_memory.h"
#include "base/notice.h"
#include "base/visible.h"
#include "cpu/choose.h"
#include "cpu/pairs/pairs.h"
#include "device/gpu_plan.h"
#include "tools/doctor/gather/gather.h"
#include "io/text/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* The hardware and kernels of one rank. */
typedef struct seat {
  char node[TRI_ABOUT_TEXT_BYTES], cpu[TRI_ABOUT_TEXT_BYTES], device[TRI_ABOUT_TEXT_BYTES];
  char f32[24], kernels[24], bf16[24], library[24], attention[24];
} seat;

static void look(const tri_session *se, seat *s) {
  const tri_device *d = se->device;
  bool              gpu = tri_device_is_gpu(d), by_cudnn = false;
  char              instructions[TRI_ABOUT_TEXT_BYTES] = "";

  memset(s, 0, sizeof *s);
  snprintf(s->node, sizeof s->node, "%s", se->rt.host);
  tri_about_find_cpu(s->cpu);
  snprintf(s->device, sizeof s->device, "%s%s%.60s", d->ops->name, d->model[0] ? " " : "", d->model);
  if (gpu) {
    if (tri_gpu_attn_asked(&by_cudnn) != TRI_OK) tri_error_clear(); /* opening the device reports it */
    snprintf(s->kernels, sizeof s->kernels, "%.23s", d->ops->name);
    snprintf(s->f32, sizeof s->f32, "%.23s", d->ops->name);
    snprintf(s->bf16, sizeof s->bf16, "%.23s", d->ops->name);
    snprintf(s->attention, sizeof s->attention, "%s", by_cudnn ? "cudnn" : "own");
    return;
  }
  tri_gather_cpu(instructions, sizeof instructions);
  snprintf(s->library, sizeof s->library, "%.*s", (int)strcspn(instructions, ","), instructions);
  snprintf(s->kernels, sizeof s->kernels, "%s", tri_cpu_family_find() ? tri_cpu_family_find()->name : "none");
  snprintf(s->f32, sizeof s->f32, "%s", tri_pairs_f32_name());
  snprintf(s->bf16, sizeof s->bf16, "%s", tri_pairs_find() ? tri_pairs_find()->name : "f32");
}

/* ---- JSON ---- */

/* Appends ", "name": "value"", or null for "". Names of machines may hold any bytes, so control characters
 * are made visible. */
static tri_status put_text(tri_text *t, const char *between, const char *name, const char *value) {
  char shown[TRI_ABOUT_TEXT_BYTES * TRI_VISIBLE_MOST * 4];

  TRI_TRY(tri_text_printf(t, "%s", between));
  TRI_TRY(tri_json_put_string(t, name, strlen(name)));
  if (!value[0]) return tri_text_printf(t, ": null");
  tri_visible(value, strlen(value), "", shown, sizeof shown);
  TRI_TRY(tri_text_put(t, ": ", 2));
  return tri_json_put_string(t, shown, strlen(shown));
}

static tri_status put_build(const tri_about *a, tri_text *t) {
  TRI_TRY(put_text(t, "{", "version", TRI_VERSION));
  TRI_TRY(put_text(t, ", ", "commit", tri_about_commit));
  TRI_TRY(tri_text_printf(t, ", \"build\": "));
  TRI_TRY(put_text(t, "{", "type", a->type));
  TRI_TRY(put_text(t, ", ", "compiler", a->compiler));
  TRI_TRY(put_text(t, ", ", "flags", a->flags));
  TRI_TRY(put_text(t, ", ", "made_for", a->made_for));
  TRI_TRY(tri_text_printf(t, "}, \"libraries\": ["));
  for (int i = 0; i < a->n_library; i++) {
    const tri_about_library *l = &a->library[i];
    TRI_TRY(put_text(t, i ? ", {" : "{", "name", l->name));
    TRI_TRY(put_text(t, ", ", "built", l->built));
    TRI_TRY(put_text(t, ", ", "loaded", l->loaded));
    TRI_TRY(tri_text_put(t, "}", 1));
  }
  return tri_text_put(t, "]", 1);
}

static bool is_alike(const seat *a, const seat *b) {
  return !memcmp(a->cpu, b->cpu, sizeof *a - offsetof(seat, cpu));
}

static tri_status put_host(const seat *s, int nodes, int ranks, bool first, tri_text *t) {
  TRI_TRY(put_text(t, first ? "{" : ", {", "node", s->node));
  if (nodes > 1) TRI_TRY(tri_text_printf(t, ", \"nodes\": %d", nodes));
  TRI_TRY(put_text(t, ", ", "cpu", s->cpu));
  TRI_TRY(put_text(t, ", ", "device", s->device));
  return tri_text_printf(t, ", \"ranks\": %d}", ranks);
}

/* Writes one entry, named by the first node, if all nodes are alike. Otherwise each node has its own, from
 * its first rank. Ranks of a node are neighbours or every n-th. all [n]. */
static tri_status put_hosts(const seat *all, int n, tri_text *t) {
  bool alike = true;
  int  nodes = 0, done = 0;

  for (int i = 1; i < n; i++) alike = alike && is_alike(&all[0], &all[i]);
  TRI_TRY(tri_text_printf(t, ", \"hosts\": ["));
  for (int i = 0; i < n; i++) {
    int ranks = 0, k = 0;
    while (k < i && strcmp(all[k].node, all[i].node) != 0) k++;
    if (k < i) continue;
    nodes++;
    if (alike) continue;
    for (k = i; k < n; k++) ranks += !strcmp(all[k].node, all[i].node);
    TRI_TRY(put_host(&all[i], 1, ranks, done++ == 0, t));
  }
  if (alike) TRI_TRY(put_host(&all[0], nodes, n, true, t));
  return tri_text_printf(t, "], \"ranks\": %d", n);
}

/* Writes one word, or all different words if ranks differ. */
static tri_status put_product(const seat *all, int n, const char *between, const char *name, size_t offset,
                              tri_text *t) {
  tri_text   words = {0};
  tri_status st = TRI_OK;

  for (int i = 0; i < n; i++) {
    const char *word = (const char *)&all[i] + offset;
    int         k = 0;
    while (k < i && strcmp((const char *)&all[k] + offset, word) != 0) k++;
    if (k < i || !word[0]) continue;
    TRI_TRY_DONE(tri_text_printf(&words, "%s%s", words.len ? ", " : "", word));
  }
  if (words.len) TRI_TRY_DONE(put_text(t, between, name, words.data));
done:
  tri_text_free(&words);
  return st;
}

static tri_status put_products(const seat *all, int n, tri_text *t) {
  TRI_TRY(tri_text_printf(t, ", \"products\": {"));
  TRI_TRY(put_product(all, n, "", "f32", offsetof(seat, f32), t));
  TRI_TRY(put_product(all, n, ", ", "bf16", offsetof(seat, bf16), t));
  TRI_TRY(put_product(all, n, ", ", "library", offsetof(seat, library), t));
  TRI_TRY(put_product(all, n, ", ", "kernels", offsetof(seat, kernels), t));
  TRI_TRY(put_product(all, n, ", ", "attention_backward", offsetof(seat, attention), t));
  return tri_text_put(t, "}", 1);
}

/* ---- variables ---- */

enum { MOST_VARIABLES = 128, VALUE_BYTES = 256 }; /* chosen, twice as many as job files set */

static bool is_ours(const char *variable) {
  static const char *const prefix[] = {"TRI_", "OMP_", "NCCL_"};

  for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
    if (!strncmp(variable, prefix[i], strlen(prefix[i]))) return strchr(variable, '=') != NULL;
  return false;
}

/* Returns whether a variable of this name was found already, since some launchers pass both. getenv returns
 * the first one. */
static bool is_among(char *const *found, int n, const char *variable) {
  size_t len = strcspn(variable, "=") + 1;

  while (n > 0 && strncmp(found[n - 1], variable, len) != 0) n--;
  return n > 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns whether the name has this word between underscores. */
static bool has_word(const char *name, const char *word) {
  size_t n = strlen(word);

  for (const char *at = name; (at = strstr(at, word)) != NULL; at += n)
    if ((at == name || at[-1] == '_') && (!at[n] || at[n] == '_')) return true;
  return false;
}

static bool promises_secret(const char *name) {
  static const char *const part[] = {"TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "KEY"};
  static const char *const word[] = {"PASS", "PWD", "AUTH", "AUTHORIZATION", "CREDS", "COOKIE", "JWT"};

  for (size_t i = 0; i < sizeof part / sizeof *part; i++)
    if (strstr(name, part[i])) return true;
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (has_word(name, word[i])) return true;
  return false;
}

/* Masks a value if its name suggests a secret. Keeps only the scheme of an address with a user, a password or
 * a query. */
static void mask(const char *name, const char *value, char out[VALUE_BYTES]) {
  const char *host = strstr(value, "://");

  snprintf(out, VALUE_BYTES, "%s", promises_secret(name) ? "***" : value);
  if (host && strpbrk(host, "@?#"))
    snprintf(out, VALUE_BYTES, "%.*s://***", (int)(host - value > 32 ? 32 : host - value), value);
}

/* Writes rank 0's variables, sorted by name. */
static tri_status put_environment(tri_text *t) {
  char *found[MOST_VARIABLES];
  int   n = 0;

  for (char **e = environ; *e && n < MOST_VARIABLES; e++)
    if (is_ours(*e) && !is_among(found, n, *e)) found[n++] = *e;
  qsort(found, (size_t)n, sizeof *found, by_name);
  TRI_TRY(tri_text_printf(t, ", \"environment\": {"));
  for (int i = 0, k = 0; i < n; i++) {
    char   name[64], shown[64 * TRI_VISIBLE_MOST], value[VALUE_BYTES];
    size_t len = strcspn(found[i], "=");
    if (len >= sizeof name) continue;
    snprintf(name, sizeof name, "%.*s", (int)len, found[i]);
    tri_visible(name, len, "", shown, sizeof shown);
    mask(name, found[i] + len + 1, value);
    if (value[0]) TRI_TRY(put_text(t, k++ ? ", " : "", shown, value));
  }
  return tri_text_put(t, "}", 1);
}

/* ---- the record ---- */

/* Warns, on rank 0, if nodes of different kinds chose different kernels. all [n]. */
static void warn_of_unlike(const seat *all, int n) {
  const seat *a = &all[0], *b = a;

  for (int i = 1; i < n && b == a; i++)
    if (memcmp(a->f32, all[i].f32, sizeof *a - offsetof(seat, f32))) b = &all[i];
  if (b == a || !a->library[0] || !b->library[0]) return;
  tri_warn("unlike_ranks",
           "ranks use different instructions: f32 %s, bf16 %s, library %s, kernels %s on %.63s, but %s, %s, "
           "%s, %s on %.63s. The last digits of an answer then depend on its rank. Set run.cpu_kernels, "
           "run.cpu_f32 and run.cpu_bf16 to the same values for all, or request nodes of one kind "
           "(--constraint)",
           a->f32, a->bf16, a->library, a->kernels, a->node, b->f32, b->bf16, b->library, b->kernels,
           b->node);
}

/* Writes the record on rank 0. all [n]. */
static tri_status compose(const tri_session *se, const seat *all, int n, tri_text *out) {
  tri_about *a = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(a, 1));
  TRI_TRY_DONE(tri_about_gather(a));
  TRI_TRY_DONE(put_build(a, out));
  TRI_TRY_DONE(put_products(all, n, out));
  warn_of_unlike(all, n);
  TRI_TRY_DONE(put_text(out, ", ", "collectives", tri_comm_way_text(se->comm[TRI_WORLD]->way)));
  TRI_TRY_DONE(put_hosts(all, n, out));
  TRI_TRY_DONE(put_environment(out));
  TRI_TRY_DONE(tri_text_put(out, "}", 1));
done:
  TRI_FREE(a);
  return st;
}

tri_status tri_version_record(const tri_session *se, tri_text *out) {
  tri_comm  *world = se->comm[TRI_WORLD];
  seat       mine;
  size_t    *counts = NULL;
  void      *all = NULL;
  tri_status st = TRI_OK;

  look(se, &mine);
  TRI_TRY_DONE(tri_agree(world, TRI_ALLOC(counts, world->size)));
  TRI_TRY_DONE(tri_host_gather_all(world, &mine, sizeof mine, &all, counts));
  TRI_TRY_DONE(tri_agree(world, world->rank == 0 ? compose(se, all, world->size, out) : TRI_OK));
done:
  tri_host_free(&all);
  TRI_FREE(counts);
  return st;
}
