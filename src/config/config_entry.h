/* config_entry.h - a deck's entries while a tri_config is made of them. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CONFIG_ENTRY_H
#define TRI_CONFIG_ENTRY_H

#include "config.h"

enum { TRI_MOST_KEYS = 160 };

/* What the deck says about one key: the first of its entries, -1 for none. */
typedef struct tri_key_slot {
  int         file, argument;
  const char *alias; /* row of tri_key_aliases the winning entry was found by, or NULL */
} tri_key_slot;

typedef struct tri_loader {
  const tri_deck *deck;
  tri_config     *cfg;
  const tri_algo *preset; /* algo.name's own row; NULL: not known yet, or none */
  tri_text       *notes;
  tri_errors     *errors;                  /* NULL where the first one ends it */
  bool            is_typed;                /* by a user, whose paths may be meant for a shell */
  tri_key_slot    slot[TRI_MOST_KEYS + 1]; /* of each row of tri_keys, then of the reward list */
} tri_loader;

/* config_entry.c. Not collective. */

/* The first entry that counts for a row of tri_keys, or for the reward list (tri_n_keys); -1: none. */
int tri_loader_entry(const tri_loader *l, int key);
/* The entry that sets the key ("reward" too), or NULL where it is not given (or null). */
const tri_deck_entry *tri_loader_given(const tri_loader *l, const char *name);
/* Entries of the key that begins at `first`. */
int tri_loader_group(const tri_deck *d, int first);
/* Whether a deck's line stands outside of a section, which is refused with the key that it means: nothing
 * else is said of it. */
static inline bool tri_loader_is_astray(const tri_deck_entry *e) { return e->line > 0 && !e->section[0]; }
/* Whether nothing stands behind the colon. */
bool tri_loader_is_empty(const tri_deck_entry *e);

/* config_values.c. Not collective. The default of a row of tri_keys, then what the deck says. */
TRI_CHECKED tri_status tri_config_read_key(const tri_loader *l, int row);
/* Not collective. The default alone, in the place of a value wrong. */
TRI_CHECKED tri_status tri_config_default_key(const tri_loader *l, int row);
/* Pure. A finite number as YAML has it. */
bool tri_config_parse_f64(const char *text, double *out);
/* config_rewards.c. Not collective. */
TRI_CHECKED tri_status tri_config_read_rewards(const tri_loader *l);
void                   tri_config_forget_reward(tri_reward_opt *r); /* its texts are freed */
/* config_check.c. Not collective. What the values are together, each key having been read without error:
 * what has no use, contradicts or is missing, and a note for each key that sleeps. */
TRI_CHECKED tri_status tri_config_check(const tri_loader *l);

#endif
