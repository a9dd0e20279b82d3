/* fuzz_deck.c - decks (io/text/deck.c, src/config), from a deck and up to six overrides, separated by
 * 0x01.
 *
 * Keys and values must be UTF-8. An accepted deck must print as a deck, and this must read back and print the
 * same. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config.h"
#include "fuzz_case.h"
#include "io/text/deck.h"

FUZZ_QUIET_START

static void set_values(tri_deck *deck, const uint8_t *data, size_t n) {
  for (int i = 0; i < 6 && n; i++) {
    fuzz_part part = fuzz_next(&data, &n);
    char     *text = strndup(part.p, part.n);
    (void)!tri_deck_set(deck, text);
    free(text);
  }
  tri_error_clear();
  for (int i = 0; i < tri_deck_count(deck); i++) {
    const tri_deck_entry *e = tri_deck_at(deck, i);
    FUZZ_CHECK(fuzz_is_utf8(e->key, strlen(e->key)) && fuzz_is_utf8(e->value, strlen(e->value)));
  }
}

static void check_print(const tri_config *config) {
  tri_deck  *deck = NULL;
  tri_config again = {0};
  tri_text   a = {0}, b = {0};

  FUZZ_CHECK(tri_config_print(config, &a) == TRI_OK);
  FUZZ_CHECK(tri_deck_open_text("printed", a.data, a.len, &deck) == TRI_OK);
  FUZZ_CHECK(tri_config_from_deck(deck, &again, NULL) == TRI_OK);
  FUZZ_CHECK(tri_config_print(&again, &b) == TRI_OK);
  FUZZ_CHECK(a.len == b.len && fuzz_same(a.data, b.data, a.len));
  tri_config_free(&again);
  tri_deck_close(&deck);
  tri_text_free(&a);
  tri_text_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fuzz_part  text = fuzz_next(&data, &n);
  tri_deck  *deck = NULL;
  tri_config config = {0};
  tri_text   notes = {0};

  fuzz_begin();
  if (tri_deck_open_text("deck", text.p, text.n, &deck) == TRI_OK) {
    set_values(deck, data, n);
    if (tri_config_from_deck(deck, &config, &notes) == TRI_OK) check_print(&config);
  }
  tri_config_free(&config);
  tri_deck_close(&deck);
  tri_text_free(&notes);
  fuzz_end();
  return 0;
}
