/* model_case.h - helpers for the tests of stores, models, samplers and training. It opens sessions and golden
 * files, and fills models from them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_MODEL_CASE_H
#define TRI_TESTS_MODEL_CASE_H

#include "ranks_case.h"

#include <math.h>

#include "base/rng.h"
#include "comm/session.h"
#include "device_case.h"
#include "io/hf/hf_config.h"
#include "io/model/safetensors.h"
#include "model/model.h"

static inline void *test_alloc(int64_t n, size_t size) {
  void *p = calloc(n > 0 ? (size_t)n : 1, size);
  CHECK(p);
  return p;
}

/* test_device() with one thread per rank, since the tests share a machine. */
static inline void session_open(tri_session *se, int ranks_per_node) {
  tri_session_opt opt = {.device = test_device(), .ranks_per_node = ranks_per_node, .threads = 1};
  OK(tri_session_open(&opt, se));
}

/* The models of tests/golden/make_model_golden.py, as folders of tests/data. Every family has at least one.
 * The brief run takes every third (test_step) or every twelfth. Their order makes these differ most. */
static const char *const golden_models[] = {
    "model/llama",       "model/llama_bias",    "model/llama_linear", "model/qwen2_window",
    "model/qwen2",       "model/qwen2_tied",    "model/mistral",      "model/mistral_wide",
    "model/llama_yarn",  "model/qwen3",         "model/qwen3_window", "model/gemma",
    "model/gemma2",      "model/gemma2_bias",   "model/gemma_bias",   "model/gemma3",
    "model/gemma3_cap",  "model/phi3",          "model/granite",      "model/granite_bias",
    "model/olmo2",       "model/olmo3",         "model/olmo2_bias",   "model/smollm3_window",
    "model/smollm3",     "model/phi3_long",     "model/olmo3_bias",   "model/phi3_partial",
    "model/phi3_window", "model/mistral3_half", "model/gemma3_half"};
enum { N_MODELS = sizeof golden_models / sizeof *golden_models };
/* The models of tests/golden/make_qwen3_5_golden.py, with recurrent layers. Their sequences are longer. */
static const char *const golden_recurrent[] = {"model/qwen3_5_half", "model/qwen3_5_tied",
                                               "model/qwen3_5_wide"};
enum { N_RECURRENT = sizeof golden_recurrent / sizeof *golden_recurrent };

/* A folder under tests/data with golden.safetensors, which holds the numbers of other programs by name. */
typedef struct golden {
  char             folder[512];
  tri_safetensors *numbers, *weights; /* weights is NULL until a model is opened from the folder */
  tri_model_shape  shape;
  tri_eos          eos;
} golden;

static inline void golden_open(golden *g, const char *name) {
  char path[600];

  memset(g, 0, sizeof *g);
  snprintf(g->folder, sizeof g->folder, "%s/%s", test_data(), name);
  snprintf(path, sizeof path, "%s/golden.safetensors", g->folder);
  OK(tri_safetensors_open(path, &g->numbers));
}
static inline void golden_open_model(golden *g, const char *name) {
  char    path[600];
  int64_t gone; /* tensors outside the text half */

  golden_open(g, name);
  snprintf(path, sizeof path, "%s/model.safetensors", g->folder);
  OK(tri_safetensors_open(path, &g->weights));
  if (strstr(name, "_half")) OK(tri_safetensors_keep_text(g->weights, &gone));
  OK(tri_hf_config_read(g->folder, &g->shape, &g->eos));
}
static inline void golden_close(golden *g) {
  tri_safetensors_close(&g->numbers);
  tri_safetensors_close(&g->weights);
}

static inline int64_t golden_count(const golden *g, const char *name) {
  const tri_safetensors_info *info = tri_safetensors_find(g->numbers, name);
  CHECK(info, "%s has no %s", g->folder, name);
  return info->count;
}
/* Free with free(). */
static inline float *golden_get(const golden *g, const char *name) {
  int64_t n = golden_count(g, name);
  float  *x = test_alloc(n, sizeof *x);
  OK(tri_safetensors_read_f32(g->numbers, tri_safetensors_find(g->numbers, name), 0, n, x));
  return x;
}
static inline int32_t *golden_get_int(const golden *g, const char *name) {
  int64_t  n = golden_count(g, name);
  float   *x = golden_get(g, name);
  int32_t *out = test_alloc(n, sizeof *out);
  for (int64_t i = 0; i < n; i++) out[i] = (int32_t)x[i];
  free(x);
  return out;
}
static inline double golden_number(const golden *g, const char *name) {
  float *x = golden_get(g, name);
  double y = (double)x[0];
  free(x);
  return y;
}

/* |a - b| / |b| over n numbers. 0 when both are 0. */
static inline double distance(const float *a, const float *b, int64_t n) {
  double d = 0, r = 0;

  for (int64_t i = 0; i < n; i++) {
    d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    r += (double)b[i] * (double)b[i];
  }
  if (d == 0) return 0;
  return sqrt(d / r);
}

/* tri_fill_fn that reads a golden folder's model.safetensors. */
typedef struct fill_from {
  const golden        *g;
  const tri_unit_spec *unit;
} fill_from;
static inline tri_status fill_golden(void *ctx, tri_state_kind kind, int u, int i, int64_t begin,
                                     int64_t count, float *out) {
  const fill_from *f = ctx;
  (void)kind;
  return tri_safetensors_read_f32(
      f->g->weights, tri_safetensors_find(f->g->weights, f->unit[u].param[i].name), begin, count, out);
}
static inline void fill_model(tri_model *m, const golden *g, tri_stream *s) {
  fill_from f = {g, tri_params_options(tri_model_params(m))->unit};
  OK(tri_params_fill(tri_model_params(m), TRI_STATE_WEIGHT, fill_golden, &f, s));
}

/* Options of a test's model. Nothing has more than `tokens` rows. */
static inline tri_model_opt model_options(const golden *g, const tri_session *se, tri_dtype dtype,
                                          int64_t tokens) {
  return (tri_model_opt){.shape = &g->shape,
                         .dtype = dtype,
                         .plan = {TRI_SHARD_NODE, TRI_SHARD_NODE, TRI_SHARD_WORLD},
                         .place = se->place,
                         .train = true,
                         .max_tokens = tokens,
                         .max_learn_tokens = tokens,
                         .max_rows = tokens,
                         .max_positions = g->shape.max_pos,
                         .rope_long = tri_rope_is_long(&g->shape, TRI_FACTORS_AUTO, g->shape.max_pos),
                         .label = "policy"};
}

#endif
