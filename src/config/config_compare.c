/* config_compare.c - compares the deck of a checkpoint with the deck of the run that resumes from it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "config_keys.h"
#include "io/model/fingerprint.h"
#include "io/text/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tri_config_allows(const tri_config *c, const char *key) {
  for (int i = 0; i < c->run.allow_changes.n; i++)
    if (!strcmp(c->run.allow_changes.item[i], key)) return true;
  return false;
}

/* Appends the absolute name of the file at a path if it exists, else the path. tri_config_past explains
 * folder. */
static tri_status put_path(const char *path, const char *folder, tri_text *out) {
  tri_text   whole = {0};
  char      *real = NULL;
  tri_status st = tri_text_printf(&whole, "%s%s%s", folder && path[0] != '/' ? folder : "",
                                  folder && path[0] != '/' ? "/" : "", path);

  if (st == TRI_OK) {
    real = realpath(whole.data, NULL);
    st = tri_text_printf(out, "%s\n", real ? real : path);
  }
  free(real);
  tri_text_free(&whole);
  return st;
}

/* Appends the files named by a key. */
static tri_status put_paths(const tri_config *c, const char *folder, const tri_key *k, tri_text *out) {
  const void            *at = (const char *)c + k->offset;
  const tri_config_list *list = at;

  if (k->type == TRI_KEY_TEXT) return *(char *const *)at ? put_path(*(char *const *)at, folder, out) : TRI_OK;
  for (int i = 0; i < list->n; i++) TRI_TRY(put_path(list->item[i], folder, out));
  return TRI_OK;
}

static bool is_path(const tri_reward_opt *r, const char *field) {
  for (const tri_reward_field *f = tri_reward_find(r->name)->field; f && f->name; f++)
    if (!strcmp(f->name, field)) return !strcmp(f->unit, "path");
  return false;
}

/* ---- files by their bytes ---- */

enum { INPUT_BYTES = 96 };

static bool is_input(const tri_key *k) {
  return k->type == TRI_KEY_TEXT && k->change == TRI_CHANGE_REFUSED && !strcmp(k->unit, "path") &&
         !tri_key_in_section(k->name, "rollout");
}

/* Returns a name such as "reward 1 path". */
static const char *name_input(int reward, const char *field, char name[INPUT_BYTES]) {
  snprintf(name, INPUT_BYTES, "reward %d %s", reward + 1, field);
  return name;
}

tri_status tri_config_inputs(const tri_config *c, tri_text *out) {
  char name[INPUT_BYTES];

  for (int i = 0; i < tri_n_keys; i++) {
    const char *path = is_input(&tri_keys[i]) ? *(char *const *)((const char *)c + tri_keys[i].offset) : NULL;
    if (path && !tri_chat_is_word(path)) TRI_TRY(tri_fingerprint(tri_keys[i].name, path, out));
  }
  for (int i = 0; i < c->reward.n; i++)
    for (int f = 0; f < c->reward.item[i].n_field; f++) {
      const char *field = c->reward.item[i].field[f].name;
      if (is_path(&c->reward.item[i], field) && !tri_reward_is_aside(&c->reward.item[i], NULL, field))
        TRI_TRY(tri_fingerprint(name_input(i, field, name), c->reward.item[i].field[f].value, out));
    }
  return TRI_OK;
}

/* Returns whether both fingerprints are known. */
static bool is_known(const tri_config_past *p, const char *name) {
  return p->inputs && p->inputs_now && tri_fingerprint_has(p->inputs, name) &&
         tri_fingerprint_has(p->inputs_now, name);
}

/* Appends the names of files with other bytes, for each input of a key, or of all rewards if k is NULL.
 * Appends nothing if they agree or are unknown. */
static tri_status put_other_bytes(const tri_config_past *p, const tri_config *now, const tri_key *k,
                                  tri_text *out) {
  char name[INPUT_BYTES];

  if (k)
    return is_input(k) && is_known(p, k->name)
               ? tri_fingerprint_differ(p->inputs, p->inputs_now, k->name, out)
               : TRI_OK;
  for (int i = 0; i < now->reward.n; i++)
    for (int f = 0; f < now->reward.item[i].n_field; f++) {
      size_t   len = out->len;
      tri_text one = {0};

      tri_status st;
      if (!is_known(p, name_input(i, now->reward.item[i].field[f].name, name))) continue;
      st = tri_fingerprint_differ(p->inputs, p->inputs_now, name, &one);
      if (st == TRI_OK && one.len) st = tri_text_printf(out, "%s%s: %s", len ? "; " : "", name, one.data);
      tri_text_free(&one);
      TRI_TRY(st);
    }
  return TRI_OK;
}

/* Appends the files named by rewards, and after each the reward's other fields, except those that locate a
 * secret. For a path with known bytes on both sides it appends only the name. `other` is the deck to compare
 * with. */
static tri_status put_reward_paths(const tri_config_past *p, const tri_config *c, const tri_config *other,
                                   const char *folder, tri_text *out) {
  char name[INPUT_BYTES];

  for (int i = 0; i < c->reward.n; i++) {
    const tri_reward_opt *r = &c->reward.item[i];
    const tri_reward_opt *twin = i < other->reward.n ? &other->reward.item[i] : NULL;
    tri_reward_opt        rest = *r;
    rest.n_field = 0;
    for (int k = 0; k < r->n_field; k++) {
      if (tri_reward_is_aside(r, twin, r->field[k].name)) continue;
      if (is_path(r, r->field[k].name) && is_known(p, name_input(i, r->field[k].name, name)))
        TRI_TRY(tri_text_printf(out, "%s\n", name));
      else if (is_path(r, r->field[k].name))
        TRI_TRY(put_path(r->field[k].value, folder, out));
      else
        rest.field[rest.n_field++] = r->field[k];
    }
    TRI_TRY(tri_key_put_reward(&rest, ", ", out));
    TRI_TRY(tri_text_put(out, "\n", 1));
  }
  return TRI_OK;
}

static tri_status put_all_rewards(const tri_config *c, tri_text *out) {
  for (int i = 0; i < c->reward.n; i++) {
    TRI_TRY(tri_text_put(out, i ? ", {" : "[{", i ? 3 : 2));
    TRI_TRY(tri_key_put_reward(&c->reward.item[i], ", ", out));
    TRI_TRY(tri_text_put(out, "}", 1));
  }
  return tri_text_printf(out, "%s", c->reward.n ? "]" : "[]");
}

/* Appends a key, or the list of rewards if k is NULL. */
static tri_status put_shown(const tri_config *c, const tri_key *k, tri_text *out) {
  return k ? tri_key_put(c, k, out) : put_all_rewards(c, out);
}

static bool are_equal(const tri_text *a, const tri_text *b) {
  return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

/* The comparison of a key with its earlier value: the same, files of the same bytes elsewhere, or other. */
typedef enum { SAME, MOVED, OTHER } sameness;

static bool holds(const tri_config_list *list, const char *item) {
  for (int i = 0; i < list->n; i++)
    if (!strcmp(list->item[i], item)) return true;
  return false;
}

/* Compares lists of names without regard to order. */
static bool are_equal_sets(const tri_config_list *a, const tri_config_list *b) {
  bool equal = (a->n == 0) == (b->n == 0);

  for (int i = 0; i < a->n; i++) equal = equal && holds(b, a->item[i]);
  for (int i = 0; i < b->n; i++) equal = equal && holds(a, b->item[i]);
  return equal;
}

/* Returns whether a mapping, or a list of names in any order, is the same. */
static bool is_reordered(const tri_config *before, const tri_config *now, const tri_key *k) {
  const void *a = (const char *)before + k->offset, *b = (const char *)now + k->offset;

  if (k->type == TRI_KEY_MAP) return tri_json_same(*(char *const *)a, *(char *const *)b);
  return !strcmp(k->name, "lora.targets") && are_equal_sets(a, b);
}

/* Compares a key. Other names of the same files are equal, and so are files with the same bytes as far as
 * known. */
static tri_status compare_key(const tri_config_past *before, const tri_config *now, const tri_key *k,
                              sameness *out) {
  const tri_config_past unknown = {0}; /* compares without the bytes of files */

  tri_text   a = {0}, b = {0}, bytes = {0};
  bool       known = k && is_input(k) && is_known(before, k->name);
  tri_status st = TRI_OK;

  *out = SAME;
  if (k && is_reordered(before->deck, now, k)) goto done;
  TRI_TRY_DONE(put_shown(before->deck, k, &a));
  TRI_TRY_DONE(put_shown(now, k, &b));
  TRI_TRY_DONE(put_other_bytes(before, now, k, &bytes));
  *out = are_equal(&a, &b) && !bytes.len ? SAME : OTHER;
  if (*out == SAME || bytes.len || (k && strcmp(k->unit, "path"))) goto done;
  if (k && (!tri_key_is_used(k, &before->deck->algo.row) || !tri_key_is_used(k, &now->algo.row))) goto done;
  a.len = b.len = 0;
  TRI_TRY_DONE(k ? put_paths(before->deck, before->folder, k, &a)
                 : put_reward_paths(&unknown, before->deck, now, before->folder, &a));
  TRI_TRY_DONE(k ? put_paths(now, NULL, k, &b) : put_reward_paths(&unknown, now, before->deck, NULL, &b));
  *out = are_equal(&a, &b) ? SAME : known ? MOVED : OTHER;
  if (k || *out == SAME) goto done;
  a.len = b.len = 0;
  TRI_TRY_DONE(put_reward_paths(before, before->deck, now, before->folder, &a));
  TRI_TRY_DONE(put_reward_paths(before, now, before->deck, NULL, &b));
  if (are_equal(&a, &b)) *out = MOVED;
done:
  tri_text_free(&a);
  tri_text_free(&b);
  tri_text_free(&bytes);
  return st;
}

/* Returns whether the key locates the base model of a resumed run's adapters. */
static bool is_base(const tri_config *now, const tri_key *k) {
  if (!tri_config_has_lora(now)) return false;
  return !strcmp(k->name, "model.path") || (now->critic.lora && !strcmp(k->name, "critic.path"));
}

/* Returns whether a key, or the list of rewards if k is NULL, defines the experiment. An algorithm that
 * learns from given lines has answers in evaluations only. */
static bool is_experiment(const tri_config_past *before, const tri_config *now, const tri_key *k) {
  bool answers = !k || tri_key_in_section(k->name, "rollout");

  if (k && before->same_data && !strcmp(k->name, "data.train")) return false;
  /* a checkpoint of adapters recognizes their base model by its weights, wherever it lies */
  if (k && is_base(now, k)) return false;
  return (!k || k->change == TRI_CHANGE_REFUSED) && !(answers && !(now->algo.row.needs & TRI_NEEDS_ANSWERS));
}

/* Returns a remark for a key whose new value the resume does not read. */
static const char *remark(const tri_config *before, const tri_config *now, const tri_key *k) {
  bool adapts = before->model.dtype == TRI_F16 && before->train.optim.scaling.fixed == 0;
  bool names = k && ((!strcmp(k->name, "model.path") && now->model.path) ||
                     (!strcmp(k->name, "model.config") && now->model.config) ||
                     (!strcmp(k->name, "critic.path") && now->critic.path));

  if (k && adapts && !strcmp(k->name, "train.initial_scale_power"))
    return " (ignored, the run keeps the checkpoint's scale)";
  return names && !is_base(now, k)
             ? " (ignored, the run keeps the checkpoint's weights. Give another run.output to start from "
               "the new ones)"
             : "";
}

/* Appends "FOLDER -> FOLDER" and the files there with other bytes. */
static tri_status put_both(const tri_config_past *before, const tri_config *now, const tri_key *k,
                           tri_text *to) {
  tri_text   bytes = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(put_shown(before->deck, k, to));
  TRI_TRY_DONE(tri_text_put(to, " -> ", 4));
  TRI_TRY_DONE(put_shown(now, k, to));
  TRI_TRY_DONE(put_other_bytes(before, now, k, &bytes));
  if (bytes.len && !strcmp(bytes.data, "."))
    st = tri_text_printf(to, " (the file has other bytes)");
  else if (bytes.len)
    st = tri_text_printf(to, " (other bytes: %s)", bytes.data);
done:
  tri_text_free(&bytes);
  return st;
}

static tri_status put_change(const tri_config_past *before, const tri_config *now, const tri_key *k,
                             bool moved, tri_config_changes *out) {
  const char *name = k ? k->name : "reward";
  bool        refused = !moved && is_experiment(before, now, k) && !tri_config_allows(now, name);
  tri_text   *to = refused ? &out->refused : &out->listed;

  TRI_TRY(tri_text_printf(to, "\n  %s: ", name));
  TRI_TRY(put_both(before, now, k, to));
  if (moved) return tri_text_printf(to, " (the same bytes)");
  if (!refused) return tri_text_printf(to, "%s", remark(before->deck, now, k));
  out->for_good |= tri_key_is_adapters(name);
  return tri_text_printf(&out->keys, "%s%s", out->keys.len ? ", " : "", name);
}

/* Returns whether this is a key of adapters that no model of one or both runs can have. */
static bool is_idle(const tri_config *before, const tri_config *now, const tri_key *k) {
  if (!k || !tri_key_is_adapters(k->name)) return false;
  return (!tri_config_has_lora(before) && !tri_config_has_lora(now)) ||
         !tri_key_is_used(k, &before->algo.row) || !tri_key_is_used(k, &now->algo.row);
}

tri_status tri_config_compare(const tri_config_past *before, const tri_config *now, tri_config_changes *out) {
  for (int i = 0; i <= tri_n_keys; i++) {
    const tri_key *k = i < tri_n_keys ? &tri_keys[i] : NULL;
    sameness       same = SAME;
    if (k && !strcmp(k->name, "data.chat_template_date") && !now->data.chat_template_date) continue;
    if ((k && k->change == TRI_CHANGE_HERE) || is_idle(before->deck, now, k)) continue;
    TRI_TRY(compare_key(before, now, k, &same));
    if (same != SAME) TRI_TRY(put_change(before, now, k, same == MOVED, out));
  }
  return TRI_OK;
}

void tri_config_changes_free(tri_config_changes *c) {
  tri_text_free(&c->listed);
  tri_text_free(&c->refused);
  tri_text_free(&c->keys);
}
