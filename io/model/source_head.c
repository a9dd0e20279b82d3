/* source_head.c - adds a scalar head to a language model, and reports a missing or unwanted one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "source_impl.h"

#include "family/family.h"

#include <string.h>

tri_status tri_source_add_head(tri_source *s, uint64_t seed) {
  tri_source_file *c = &s->file[TRI_SOURCE_CONFIG], *g = &s->file[TRI_SOURCE_GENERATION];
  tri_hf_text      config = {s->path[TRI_SOURCE_CONFIG], c->bytes, c->n};
  tri_hf_text      generation = {s->path[TRI_SOURCE_GENERATION], g->bytes, g->n};
  tri_text         text = {0};
  tri_status       st = TRI_OK;

  TRI_TRY_DONE(
      tri_hf_config_with_head(&config, g->bytes ? &generation : NULL, tri_source_text_end(s), &text));
  if (!s->random) s->seed = seed;
  s->adds_head = !s->shape.scored;
  TRI_FREE(c->bytes);
  c->n = 0;
  TRI_TRY_DONE(tri_host_alloc(text.len + 1, 1, (void **)&c->bytes));
  memcpy(c->bytes, text.data, text.len);
  c->n = text.len;
  config = (tri_hf_text){config.name, c->bytes, c->n};
  TRI_TRY_DONE(tri_hf_config_parse(&config, g->bytes ? &generation : NULL, &s->shape, &s->eos));
done:
  tri_text_free(&text);
  return st;
}

tri_status tri_source_check_tokens(const tri_source *s) {
  const tri_family *f = s->shape.family;

  if (!s->shape.scored) return TRI_OK;
  TRI_FAIL(TRI_EINPUT,
           "%s: has a scalar head (%s), no token head, so it scores texts and writes none. Give a "
           "language model (%s).",
           s->name, f->scored, f->architecture);
}

tri_status tri_source_fail_unscored(const tri_source *s, const char *group) {
  TRI_FAIL(TRI_EINPUT,
           "%s: has no scalar head (no tensor %s%s%s);\n  give a reward model, as `trireme train` makes "
           "with algo.name: rm, or a folder of %s with one label",
           s->name, s->ckpt ? group : "", s->ckpt ? "/" : "", s->head, s->shape.family->scored);
}
