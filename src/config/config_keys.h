/* config_keys.h - the tables behind config.h and what is asked of them. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CONFIG_KEYS_H
#define TRI_CONFIG_KEYS_H

#include "config.h"

/* config_peers.c. */

/* A spelling of another program and the option that means the same. With a dot it is read as it stands;
 * without one it may stand in the option's own section, in a section of that program or alone as an
 * argument. */
typedef struct tri_key_alias {
  const char *name, *key;
} tri_key_alias;
extern const tri_key_alias tri_key_aliases[];
extern const int           tri_n_key_aliases;

/* A name that means a key to the algorithms that read it, and a second one to those that read that: ours and
 * another program's, or that of two of another's trainers. */
typedef struct tri_key_double {
  const char *name, *key, *second;
} tri_key_double;
extern const tri_key_double tri_key_doubles[];
extern const int            tri_n_key_doubles;

/* A value of another program under a key or alias, and ours. */
typedef struct tri_key_word {
  const char *name, *value, *ours;
} tri_key_word;
extern const tri_key_word tri_key_words[];
extern const int          tri_n_key_words;

/* What to do instead, for spellings that no single option of ours stands for. A name that ends with a dot is
 * a section. */
typedef struct tri_key_hint {
  const char *name, *sentence;
} tri_key_hint;
extern const tri_key_hint tri_key_hints[];
extern const int          tri_n_key_hints;

/* A name that is not read, and the key that a person most likely means by it: one of another program that
 * means something near it only, or a usual guess. With a dot it is a full name, else the last part of one. */
extern const tri_key_alias tri_key_guesses[];
extern const int           tri_n_key_guesses;

/* Sections of other programs in which their spellings, and ours, are looked for. */
extern const char *const tri_peer_sections[];
extern const int         tri_n_peer_sections;

/* config_keys.c. Pure. */

enum { TRI_KEY_EXPECTED_BYTES = 512 }; /* chosen: has space for the names of 30 algorithms */
/* "must be ..." for the range of a key, such as "a number > 0". */
void tri_key_expected(const tri_key *k, char out[TRI_KEY_EXPECTED_BYTES]);
/* The i-th word of "a|b|c" into `out`; false when there is none. */
bool tri_key_choice(const tri_key *k, int i, char *out, size_t bytes);
/* Whether `name` starts with "section." */
bool tri_key_in_section(const char *name, const char *section);
/* Whether it says what low-rank adapters are, which a resume cannot change. */
bool tri_key_is_adapters(const char *name);
/* The i-th name a key of the tables of algorithms may have, algo.name; NULL past the last, and for other
 * keys. */
const char *tri_key_named(const tri_key *k, int i);
/* Why the deck generates no answer, so that its rewards have no effect; NULL: it generates some. */
const char *tri_config_no_answers(const tri_config *c);
/* Whether the option means something to the algorithm. */
bool tri_key_is_used(const tri_key *k, const tri_algo *a);
/* The row named so, or NULL. */
const tri_key *tri_key_find(const char *name);

/* config_print.c. */

/* Not collective. Append the value of a row as the deck as used has it: null where the algorithm has no use
 * for it or it follows from others. */
TRI_CHECKED tri_status tri_key_put(const tri_config *c, const tri_key *k, tri_text *out);
/* Not collective. Append the fields of a reward, with `between` between them. */
TRI_CHECKED tri_status tri_key_put_reward(const tri_reward_opt *r, const char *between, tri_text *out);

/* config_names.c. */

enum { TRI_KEY_NAME_BYTES = 256 }; /* chosen: longer than any name of ours or of another program */
/* Its index in tri_keys; the name must be one of ours. */
int tri_key_row(const char *name);
/* How a name was understood. */
typedef struct tri_key_match {
  int key; /* row of tri_keys, tri_n_keys for the reward list, -1 for an empty section */
  /* The spelling in tri_key_aliases, or our name where the user gave another section; else NULL. */
  const char *alias;
} tri_key_match;
/* Not collective. Which row the entry belongs to. None: TRI_ECONFIG, with its place and the nearest known
 * key. */
TRI_CHECKED tri_status tri_key_match_entry(const tri_deck_entry *e, tri_key_match *out);
/* Whether the entry's name has two meanings (tri_key_doubles). *out: what it means to the algorithm, unless
 * that is NULL. */
bool tri_key_match_double(const tri_deck_entry *e, const tri_algo *a, tri_key_match *out);
/* "section.key" of the entry; `out` [bytes]. */
void tri_key_full_name(const tri_deck_entry *e, char *out, size_t bytes);
/* The sentence of tri_key_hints for a name or its last part, or NULL. */
const char *tri_key_hint_find(const char *full);
/* The known key a person most likely meant by "section.key", or NULL. */
const char *tri_key_nearest(const char *full);

#endif
