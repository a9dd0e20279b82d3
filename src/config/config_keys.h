/* config_keys.h - the tables behind config.h and functions on them. Private to its room. Not collective, all
 * that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CONFIG_KEYS_H
#define TRI_CONFIG_KEYS_H

#include "config.h"

/* config_peers.c. */

/* A spelling of another program and the option with the same meaning. A name with a dot is read as it stands.
 * A name without a dot may stand in the option's own section, in a section of that program, or alone as an
 * argument. */
typedef struct tri_key_alias {
  const char *name, *key;
} tri_key_alias;
extern const tri_key_alias tri_key_aliases[];
extern const int           tri_n_key_aliases;

/* A name with two meanings, such as `beta`. It means `key` to the algorithms that read that key, and `second`
 * to the algorithms that read the second key. */
typedef struct tri_key_double {
  const char *name, *key, *second;
} tri_key_double;
extern const tri_key_double tri_key_doubles[];
extern const int            tri_n_key_doubles;

/* A value of another program under a key or alias, and our value for it. */
typedef struct tri_key_word {
  const char *name, *value, *ours;
} tri_key_word;
extern const tri_key_word tri_key_words[];
extern const int          tri_n_key_words;

/* Advice for spellings without a single option of ours. A name that ends with a dot is a section. */
typedef struct tri_key_hint {
  const char *name, *sentence;
} tri_key_hint;
extern const tri_key_hint tri_key_hints[];
extern const int          tri_n_key_hints;

/* A name that is not read, and the key a user most likely means by it. Such a name is a usual guess, or comes
 * from another program and means something similar only. With a dot it is a full name, else the last part of
 * one. */
extern const tri_key_alias tri_key_guesses[];
extern const int           tri_n_key_guesses;

/* Sections of other programs. They may hold their own spellings and ours. */
extern const char *const tri_peer_sections[];
extern const int         tri_n_peer_sections;

/* config_keys.c. Pure. */

enum { TRI_KEY_EXPECTED_BYTES = 512 }; /* chosen: fits the names of 30 algorithms */
/* Writes the range of a key for "must be ...", such as "a number > 0". */
void tri_key_expected(const tri_key *k, char out[TRI_KEY_EXPECTED_BYTES]);
/* Writes the i-th word of "a|b|c" into `out`. Returns false if there is none. */
bool tri_key_choice(const tri_key *k, int i, char *out, size_t bytes);
/* Returns whether `name` starts with "section." */
bool tri_key_in_section(const char *name, const char *section);
/* Returns whether the key defines the low-rank adapters. A resume cannot change such a key. */
bool tri_key_is_adapters(const char *name);
/* Returns the i-th possible name of a key like algo.name, from the tables of algorithms. NULL past the last,
 * and for other keys. */
const char *tri_key_named(const tri_key *k, int i);
/* Returns the reason why the deck generates no answers and its rewards have no effect. NULL if it generates
 * some. */
const char *tri_config_no_answers(const tri_config *c);
/* Returns whether the algorithm uses the option. */
bool tri_key_is_used(const tri_key *k, const tri_algo *a);
/* Returns the row with this name, or NULL. */
const tri_key *tri_key_find(const char *name);

/* config_print.c. */

/* Appends the value of a row for the deck as used. The value is null if the algorithm has no use for it or
 * other keys determine it. */
TRI_CHECKED tri_status tri_key_put(const tri_config *c, const tri_key *k, tri_text *out);
/* Appends `lead` and the parts that would make a run of this algorithm use the key, such as "algo.policy_loss
 * clip, sequence". Appends nothing if no part does. */
TRI_CHECKED tri_status tri_key_put_parts(const tri_key *k, const tri_algo *a, const char *lead,
                                         tri_text *out);
/* Appends the fields of a reward, separated by `between`. */
TRI_CHECKED tri_status tri_key_put_reward(const tri_reward_opt *r, const char *between, tri_text *out);

/* config_names.c. */

enum { TRI_KEY_NAME_BYTES = 256 }; /* chosen: longer than any name of ours or of another program */
/* Returns the index of the name in tri_keys. The name must be one of ours. */
int tri_key_row(const char *name);
/* The meaning found for a name. */
typedef struct tri_key_match {
  int key; /* row of tri_keys, tri_n_keys for the reward list, -1 for an empty section */
  /* The spelling in tri_key_aliases, or our name if the user gave another section, else NULL. */
  const char *alias;
} tri_key_match;
/* Finds the row of the entry. Without one it returns TRI_ECONFIG, with the entry's place and the nearest
 * known key. */
TRI_CHECKED tri_status tri_key_match_entry(const tri_deck_entry *e, tri_key_match *out);
/* Returns whether the entry's name has two meanings (tri_key_doubles). *out is the meaning for the algorithm
 * `a`, unless `a` is NULL. */
bool tri_key_match_double(const tri_deck_entry *e, const tri_algo *a, tri_key_match *out);
/* Writes "section.key" of the entry to `out` [bytes]. */
void tri_key_full_name(const tri_deck_entry *e, char *out, size_t bytes);
/* Returns the sentence of tri_key_hints for a name or its last part, or NULL. */
const char *tri_key_hint_find(const char *full);
/* Returns the known key a user most likely meant by "section.key", or NULL. */
const char *tri_key_nearest(const char *full);

#endif
