/* multimodal.c - remembers the multimodal folder of a text model, and puts trained tensors in their places
 * among its other tensors. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "multimodal.h"

#include "base/host_memory.h"
#include "fingerprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char first_line[] = "trireme multimodal 1\n", key[] = "model", path_line[] = "\npath ";

/* ---- the side file ---- */

/* Tells whether a line of tri_fingerprint is about the config or the weights. Other files do not matter here,
 * since the checkpoint has its own. */
static bool is_weighty(const char *line, size_t n) {
  static const char config[] = "config.json\t", end[] = ".safetensors";
  const char       *name = line + sizeof key;
  size_t            most = n - sizeof key, m = sizeof end - 1;
  const char       *tab = memchr(name, '\t', most);

  if (most >= sizeof config - 1 && !strncmp(name, config, sizeof config - 1)) return true;
  return tab && (size_t)(tab - name) > m && !strncmp(tab - m, end, m);
}

/* Appends the fingerprints of the config and the weights in a folder. */
static tri_status put_lines(const char *folder, tri_text *out) {
  tri_text    all = {0};
  const char *end;
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(tri_fingerprint(key, folder, &all));
  for (const char *at = all.data; at && (end = strchr(at, '\n')); at = end + 1)
    if (is_weighty(at, (size_t)(end - at))) TRI_TRY_DONE(tri_text_put(out, at, (size_t)(end + 1 - at)));
done:
  tri_text_free(&all);
  return st;
}

tri_status tri_multimodal_note(const char *folder, tri_text *out) {
  char      *real = realpath(folder, NULL);
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_text_printf(out, "%s", first_line));
  TRI_TRY_DONE(put_lines(folder, out));
  TRI_TRY_DONE(tri_text_printf(out, "%s%s\n", path_line + 1, real ? real : folder));
done:
  free(real);
  return st;
}

tri_status tri_multimodal_path(const char *name, const char *note, char out[TRI_CKPT_PATH_BYTES]) {
  const char *at = strstr(note, path_line);
  size_t      n = at ? strlen(at += sizeof path_line - 1) : 0;

  if (strncmp(note, first_line, sizeof first_line - 1) != 0 || n < 2 || n > TRI_CKPT_PATH_BYTES)
    TRI_FAIL(TRI_EFORMAT, "%s: this file is not understood", name);
  snprintf(out, TRI_CKPT_PATH_BYTES, "%.*s", (int)(n - 1), at);
  return TRI_OK;
}

tri_status tri_multimodal_differ(const char *note, const char *folder, tri_text *names) {
  tri_text   now = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(put_lines(folder, &now));
  if (now.len)
    TRI_TRY_DONE(tri_fingerprint_differ(note, now.data, key, names));
  else /* no model, so it would equal the folder of a text without such lines */
    TRI_TRY_DONE(tri_text_printf(names, "config.json"));
done:
  tri_text_free(&now);
  return st;
}

/* ---- the tensors ---- */

void tri_multimodal_plan_free(tri_multimodal_plan *p) {
  TRI_FREE(p->spec);
  TRI_FREE(p->trained);
  TRI_FREE(p->file);
  *p = (tri_multimodal_plan){0};
}

static int find_trained(const tri_safetensors_spec *trained, int64_t n, const char *name) {
  for (int64_t i = 0; i < n; i++)
    if (!strcmp(trained[i].name, name)) return (int)i;
  return -1;
}

/* Returns the index of the trained tensor in the place of this one, or -1. */
static tri_status find_of(const tri_safetensors_info *t, const tri_safetensors_spec *trained, int64_t n,
                          const char *tied, const char *embed, int *out) {
  char *name = NULL;

  *out = -1;
  TRI_TRY(tri_copy_text(t->name, &name));
  if (tri_safetensors_text_name(name)) {
    *out = find_trained(trained, n, name);
    if (*out < 0 && tied && !strcmp(name, tied)) *out = find_trained(trained, n, embed);
  }
  TRI_FREE(name);
  return TRI_OK;
}

static bool has_shape(const tri_safetensors_info *t, const tri_safetensors_spec *s) {
  bool same = t->ndim == s->ndim;

  for (int k = 0; same && k < s->ndim; k++) same = t->dim[k] == s->dim[k];
  return same;
}

/* Adds one tensor of the folder to the plan. */
static tri_status place(const tri_safetensors *whole, const tri_safetensors_info *t,
                        const tri_safetensors_spec *trained, int i, tri_multimodal_plan *out) {
  tri_safetensors_spec spec = {.name = t->name, .copy = t};

  if (i >= 0) {
    spec = trained[i];
    spec.name = t->name;
    if (!has_shape(t, &spec))
      TRI_FAIL(TRI_EFORMAT, "%s: tensor %s has another shape than the trained one",
               tri_safetensors_path(whole, t), t->name);
  }
  out->spec[out->n] = spec;
  out->trained[out->n] = i;
  out->file[out->n++] = t->file;
  out->n_copied += i < 0;
  return TRI_OK;
}

tri_status tri_multimodal_place(const tri_safetensors *whole, const tri_safetensors_spec *trained, int64_t n,
                                const char *tied, const char *embed, tri_multimodal_plan *out) {
  int64_t    n_whole = tri_safetensors_count(whole);
  int       *of = NULL;
  bool      *placed = NULL;
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(of, n_whole));
  TRI_TRY_DONE(TRI_ALLOC(placed, n));
  TRI_TRY_DONE(TRI_ALLOC(out->spec, n_whole));
  TRI_TRY_DONE(TRI_ALLOC(out->trained, n_whole));
  TRI_TRY_DONE(TRI_ALLOC(out->file, n_whole));
  for (int64_t i = 0; i < n_whole; i++) {
    TRI_TRY_DONE(find_of(tri_safetensors_at(whole, i), trained, n, tied, embed, &of[i]));
    if (of[i] >= 0) placed[of[i]] = true;
  }
  for (int64_t i = 0; i < n; i++)
    if (!placed[i])
      TRI_FAIL_DONE(TRI_EFORMAT, "%s: has no place for the trained tensor %s",
                    tri_safetensors_path(whole, tri_safetensors_at(whole, 0)), trained[i].name);
  for (int f = 0; f < tri_safetensors_file_count(whole); f++)
    for (int64_t i = 0; i < n_whole; i++) {
      const tri_safetensors_info *t = tri_safetensors_at(whole, i);
      if (t->file == f) TRI_TRY_DONE(place(whole, t, trained, of[i], out));
    }
done:
  TRI_FREE(of);
  TRI_FREE(placed);
  if (st != TRI_OK) tri_multimodal_plan_free(out);
  return st;
}
