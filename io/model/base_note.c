/* base_note.c - keeps, in a checkpoint of adapters, the path of their base model and its fingerprints. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base_note.h"

#include "base/host_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char first_line[] = "trireme base 1";

void tri_base_note_free(tri_base_note *b) {
  TRI_FREE(b->tensor);
  *b = (tri_base_note){0};
}

tri_status tri_base_note_begin(const tri_params_opt *o, tri_base_note *out) {
  int n = 0;

  for (int u = 0; u < o->n_unit; u++) n += o->unit[u].n_param;
  TRI_TRY(TRI_ALLOC(out->tensor, n));
  for (int u = 0; u < o->n_unit; u++)
    for (int i = 0; i < o->unit[u].n_param; i++) {
      const tri_param_spec *p = &o->unit[u].param[i];
      out->tensor[out->n++].spec = *p;
    }
  return TRI_OK;
}

/* Hashes one element by two rounds of a multiply and a shift (constants of Moremur, Pelle Evensen 2018). */
static inline uint64_t mix(int64_t place, float x) {
  uint32_t bits;
  uint64_t h;

  memcpy(&bits, &x, sizeof bits);
  h = (uint64_t)place * 0x9e3779b97f4a7c15u + bits;
  h = (h ^ (h >> 27)) * 0x3c79ac492ba7b653u;
  h = (h ^ (h >> 33)) * 0x1c69b3f74ac4ae35u;
  return h ^ (h >> 27);
}

enum { PARALLEL_ELEMENTS = 1 << 15 }; /* chosen: about ten microseconds of one thread */

uint64_t tri_base_fingerprint(const float *x, int64_t begin, int64_t count, int threads) {
  uint64_t sum = 0;

  if (count < PARALLEL_ELEMENTS) threads = 1;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) sum += mix(begin + i, x[i]);
  return sum;
}

const tri_base_tensor *tri_base_note_find(const tri_base_note *b, const char *name) {
  for (int i = 0; i < b->n; i++)
    if (!strcmp(b->tensor[i].spec.name, name)) return &b->tensor[i];
  return NULL;
}

/* ---- as a file ---- */

tri_status tri_base_note_text(const tri_base_note *b, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%s\n", first_line));
  if (b->path[0]) {
    TRI_TRY(tri_text_printf(out, "path %s\n", b->path));
  } else {
    TRI_TRY(tri_text_printf(out, "seed %" PRIu64 "\n", b->seed));
  }
  TRI_TRY(tri_text_printf(out, "part %s\n", b->part == TRI_PART_CRITIC ? "critic" : "main"));
  for (int i = 0; i < b->n; i++) {
    const tri_base_tensor *t = &b->tensor[i];
    TRI_TRY(
        tri_text_printf(out, "tensor %s %016" PRIx64 " %d", t->spec.name, t->fingerprint, (int)t->spec.init));
    for (int k = 0; k < t->spec.ndim; k++) TRI_TRY(tri_text_printf(out, " %lld", (long long)t->spec.dim[k]));
    TRI_TRY(tri_text_put(out, "\n", 1));
  }
  return TRI_OK;
}

static bool read_tensor(const char *line, tri_base_tensor *t) {
  tri_param_spec *p = &t->spec;
  long long       dim[3] = {1, 1, 1};
  int             n, init = -1;

  *t = (tri_base_tensor){0};
  n = sscanf(line, "tensor %95s %16" SCNx64 " %d %lld %lld %lld", p->name, &t->fingerprint, &init, &dim[0],
             &dim[1], &dim[2]);
  if (n < 4 || init < TRI_INIT_NORMAL || init > TRI_INIT_LOG_UNIFORM) return false;
  p->ndim = n - 3;
  p->init = (tri_init)init;
  for (int k = 0; k < p->ndim; k++) {
    if (dim[k] < 1 || dim[k] > INT32_MAX) return false;
    p->dim[k] = dim[k];
  }
  return true;
}

/* Reads one line, without its newline. */
static bool read_line(const char *line, tri_base_note *out) {
  if (!strncmp(line, "path ", 5)) return snprintf(out->path, sizeof out->path, "%s", line + 5) > 0;
  if (!strncmp(line, "seed ", 5)) return sscanf(line + 5, "%" SCNu64, &out->seed) == 1;
  if (!strcmp(line, "part main")) return true;
  if (!strcmp(line, "part critic")) {
    out->part = TRI_PART_CRITIC;
    return true;
  }
  return read_tensor(line, &out->tensor[out->n]) && ++out->n;
}

enum { LEAST_LINE = 12 }; /* characters of the shortest tensor line, "tensor a 0 0 1" */

tri_status tri_base_note_parse(const char *name, const char *text, tri_base_note *out) {
  tri_status st = TRI_OK;
  char       line[TRI_CKPT_PATH_BYTES + 16];
  int64_t    most = (int64_t)strlen(text) / LEAST_LINE + 1;
  int        at = 0;

  *out = (tri_base_note){0};
  TRI_TRY_DONE(TRI_ALLOC(out->tensor, most));
  for (const char *end; (end = strchr(text, '\n')); text = end + 1, at++) {
    size_t n = (size_t)(end - text);
    bool   fits = n < sizeof line;
    snprintf(line, sizeof line, "%.*s", (int)(fits ? n : 0), text);
    if (fits && out->n < most && (at ? read_line(line, out) : !strcmp(line, first_line))) continue;
    TRI_FAIL_DONE(TRI_EFORMAT, "%s:%d: this line is not understood", name, at + 1);
  }
  if (!out->n) TRI_FAIL_DONE(TRI_EFORMAT, "%s: names no tensor", name);
done:
  if (st != TRI_OK) tri_base_note_free(out);
  return st;
}
