/* config_entry.h - a deck's entries during the making of a tri_config. Private to its room. Not collective,
 * all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CONFIG_ENTRY_H
#define TRI_CONFIG_ENTRY_H

#include "config.h"

enum { TRI_MOST_KEYS = 160 };

/* The first entry of one key in the deck and among the arguments, -1 for none. */
typedef struct tri_key_slot {
  int         file, argument;
  const char *alias; /* row of tri_key_aliases that found the winning entry, or NULL */
} tri_key_slot;

typedef struct tri_loader {
  const tri_deck *deck;
  tri_config     *cfg;
  const tri_algo *preset; /* the row of algo.name. NULL if not known yet, or none */
  tri_text       *notes;
  tri_errors     *errors;                  /* NULL if the first error ends the loading */
  bool            is_typed;                /* a user typed the deck, so its paths may be meant for a shell */
  tri_key_slot    slot[TRI_MOST_KEYS + 1]; /* one per row of tri_keys, then the reward list */
} tri_loader;

/* config_entry.c. */

/* Returns the first entry that counts for a row of tri_keys, or for the reward list (tri_n_keys). -1 for
 * none. */
int tri_loader_entry(const tri_loader *l, int key);
/* Returns the entry that sets the key (or "reward"), or NULL if the key is not given or null. */
const tri_deck_entry *tri_loader_given(const tri_loader *l, const char *name);
/* Returns the number of entries of the key with the first entry `first`. */
int tri_loader_group(const tri_deck *d, int first);
/* Returns whether a deck's line stands outside of any section. Such a line is refused with the key it means,
 * and nothing else is said about it. */
static inline bool tri_loader_is_astray(const tri_deck_entry *e) { return e->line > 0 && !e->section[0]; }
/* Returns whether nothing stands behind the colon. */
bool tri_loader_is_empty(const tri_deck_entry *e);

/* config_values.c. Sets the default of a row of tri_keys, then the value of the deck. */
TRI_CHECKED tri_status tri_config_read_key(const tri_loader *l, int row);
/* Sets the default alone, in place of a wrong value. */
TRI_CHECKED tri_status tri_config_default_key(const tri_loader *l, int row);
/* Pure. Reads a finite number as YAML spells it. */
bool tri_config_parse_f64(const char *text, double *out);
/* config_rewards.c. */
TRI_CHECKED tri_status tri_config_read_rewards(const tri_loader *l);
void                   tri_config_forget_reward(tri_reward_opt *r); /* frees its texts */
/* config_check.c. Checks the values together, after each key was read without error. It finds keys that are
 * unused, contradict each other or are missing, and writes a note for each key without effect. */
TRI_CHECKED tri_status tri_config_check(const tri_loader *l);

#endif
