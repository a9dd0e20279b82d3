/* fuzz_hfconfig.c - config.json and generation_config.json (io/hf/hf_config.c), separated by 0x01.
 *
 * An accepted pair must be a model. Its sizes fit each other and its ids are in the vocabulary. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "io/hf/hf_config.h"

#include <math.h>

FUZZ_QUIET_START

/* Checks that the model is the same with a scalar head. */
static void check_twin(const tri_hf_text *config, const tri_hf_text *generation, const tri_model_shape *s) {
  tri_text        out = {0};
  tri_model_shape t;
  tri_eos         e;
  tri_hf_text     twin = {"twin", NULL, 0};

  FUZZ_CHECK(tri_hf_config_with_head(config, generation, -1, &out) == TRI_OK);
  twin.bytes = out.data;
  twin.n_bytes = out.len;
  FUZZ_CHECK(tri_hf_config_parse(&twin, generation, &t, &e) == TRI_OK);
  FUZZ_CHECK(t.scored && isnan(t.score_mean) && t.C == s->C && t.L == s->L && t.V == s->V);
  FUZZ_CHECK(e.pad < 0 || !e.n || e.pad != e.id[0]);
  tri_text_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fuzz_part       config = fuzz_next(&data, &n);
  bool            two = n > 0;
  fuzz_part       generation = fuzz_next(&data, &n);
  tri_hf_text     a = {"config", config.p, config.n}, b = {"generation", generation.p, generation.n};
  tri_model_shape s;
  tri_eos         e;

  fuzz_begin();
  if (tri_hf_config_parse(&a, two ? &b : NULL, &s, &e) == TRI_OK) {
    FUZZ_CHECK(s.L > 0 && s.H > 0 && s.G > 0 && s.D > 0 && s.C > 0 && s.F > 0 && s.V > 0);
    FUZZ_CHECK(s.H % s.G == 0 && s.D % 2 == 0 && s.max_pos > 0 && s.norm_eps > 0);
    FUZZ_CHECK(s.rope[TRI_GLOBAL].theta > 0 && s.rope[TRI_LOCAL].theta > 0 && s.L <= TRI_MOST_LAYERS);
    for (int l = 0; l < s.L; l++) FUZZ_CHECK(tri_kind_of(&s, l) == TRI_GLOBAL || s.attn.window > 0);
    FUZZ_CHECK(e.n >= 0 && e.n <= TRI_MOST_EOS && e.bos < s.V && e.pad < s.V);
    for (int i = 0; i < e.n; i++) FUZZ_CHECK(e.id[i] >= 0 && e.id[i] < s.V);
    FUZZ_CHECK(isnan(s.score_std) || s.score_std > 0);
    check_twin(&a, two ? &b : NULL, &s);
  }
  fuzz_end();
  return 0;
}
