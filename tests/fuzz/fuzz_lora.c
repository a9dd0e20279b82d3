/* fuzz_lora.c - adapter_config.json (io/hf/peft.c) and a checkpoint's note of the adapters' base model
 * (io/model/base_note.c), separated by 0x01.
 *
 * An accepted input, written and read again, must be the same. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz_case.h"
#include "io/hf/peft.h"
#include "io/model/base_note.h"

FUZZ_QUIET_START

static void check_config(const tri_hf_text *config) {
  tri_model_shape shape = {.L = 3, .family = tri_family_find("llama")};
  tri_lora        l, again;
  tri_text        out = {0};

  for (int scored = 0; scored < 2; scored++) {
    shape.scored = scored;
    if (tri_peft_parse(config, &shape, NULL, false, &l) != TRI_OK) continue;
    FUZZ_CHECK(l.rank > 0 && l.alpha > 0 && l.target && !(l.target & ~tri_lora_all(shape.family)));
    out.len = 0;
    FUZZ_CHECK(tri_peft_print(&l, &shape, "base", &out) == TRI_OK);
    FUZZ_CHECK(tri_peft_parse(&(tri_hf_text){"again", out.data, out.len}, &shape, NULL, false, &again) ==
               TRI_OK);
    FUZZ_CHECK(again.rank == l.rank && again.alpha == l.alpha && again.rs == l.rs &&
               again.target == l.target);
  }
  tri_text_free(&out);
}

static void check_note(const char *text) {
  tri_base_note b, again;
  tri_text      out = {0};

  if (tri_base_note_parse("note", text, &b) != TRI_OK) return;
  FUZZ_CHECK(tri_base_note_text(&b, &out) == TRI_OK);
  FUZZ_CHECK(tri_base_note_parse("again", out.data, &again) == TRI_OK);
  FUZZ_CHECK(again.n == b.n && (b.path[0] || again.seed == b.seed) && again.part == b.part &&
             !strcmp(again.path, b.path));
  for (int i = 0; i < b.n; i++)
    FUZZ_CHECK(again.tensor[i].fingerprint == b.tensor[i].fingerprint &&
               tri_base_note_find(&b, again.tensor[i].spec.name));
  tri_text_free(&out);
  tri_base_note_free(&b);
  tri_base_note_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fuzz_part   config = fuzz_next(&data, &n);
  fuzz_part   note = fuzz_next(&data, &n);
  tri_hf_text a = {"config", config.p, config.n};
  char       *text = malloc(note.n + 1);

  fuzz_begin();
  FUZZ_CHECK(text);
  if (note.n) memcpy(text, note.p, note.n);
  text[note.n] = 0;
  if (config.n) check_config(&a);
  check_note(text);
  free(text);
  fuzz_end();
  return 0;
}
