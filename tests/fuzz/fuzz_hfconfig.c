/* fuzz_hfconfig.c - config.json and generation_config.json (io/model/hf_config.c): the two, separated by
 * 0x01.
 *
 * What is accepted is a model: its sizes fit each other and its ids lie in the vocabulary. */
#include "fuzz_case.h"
#include "io/model/hf_config.h"

FUZZ_QUIET_START

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
    FUZZ_CHECK(s.H % s.G == 0 && s.D % 2 == 0 && s.max_pos > 0 && s.rope_theta > 0 && s.norm_eps > 0);
    FUZZ_CHECK(e.n >= 0 && e.n <= TRI_MOST_EOS && e.bos < s.V && e.pad < s.V);
    for (int i = 0; i < e.n; i++) FUZZ_CHECK(e.id[i] >= 0 && e.id[i] < s.V);
  }
  fuzz_end();
  return 0;
}
