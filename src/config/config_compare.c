/* config_compare.c - what a resume changes: the checkpoint's deck against the one it goes on with. */
#include "config.h"
#include "config_keys.h"

#include <stdlib.h>
#include <string.h>

bool tri_config_allows(const tri_config *c, const char *key) {
  for (int i = 0; i < c->run.allow_changes.n; i++)
    if (!strcmp(c->run.allow_changes.item[i], key)) return true;
  return false;
}

/* What is at a path, by its one absolute name where it is there; folder: see tri_config_past. */
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

/* The files that a key names. */
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

/* The files that rewards name, and beside each all else of it, but for where a secret is found; other: the
 * deck that this one is compared with. */
static tri_status put_reward_paths(const tri_config *c, const tri_config *other, const char *folder,
                                   tri_text *out) {
  for (int i = 0; i < c->reward.n; i++) {
    const tri_reward_opt *r = &c->reward.item[i];
    const tri_reward_opt *twin = i < other->reward.n ? &other->reward.item[i] : NULL;
    tri_reward_opt        rest = *r;
    rest.n_field = 0;
    for (int k = 0; k < r->n_field; k++) {
      if (tri_reward_is_aside(r, twin, r->field[k].name)) continue;
      if (is_path(r, r->field[k].name))
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

/* k NULL: the list of rewards. */
static tri_status put_shown(const tri_config *c, const tri_key *k, tri_text *out) {
  return k ? tri_key_put(c, k, out) : put_all_rewards(c, out);
}

static bool are_equal(const tri_text *a, const tri_text *b) {
  return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

/* The same text, or other names of the same files. */
static tri_status is_same(const tri_config_past *before, const tri_config *now, const tri_key *k,
                          bool *same) {
  tri_text   a = {0}, b = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(put_shown(before->deck, k, &a));
  TRI_TRY_DONE(put_shown(now, k, &b));
  *same = are_equal(&a, &b);
  if (*same || (k && strcmp(k->unit, "path"))) goto done;
  if (k && (!tri_key_is_used(k, &before->deck->algo.row) || !tri_key_is_used(k, &now->algo.row))) goto done;
  a.len = b.len = 0;
  TRI_TRY_DONE(k ? put_paths(before->deck, before->folder, k, &a)
                 : put_reward_paths(before->deck, now, before->folder, &a));
  TRI_TRY_DONE(k ? put_paths(now, NULL, k, &b) : put_reward_paths(now, before->deck, NULL, &b));
  *same = are_equal(&a, &b);
done:
  tri_text_free(&a);
  tri_text_free(&b);
  return st;
}

/* Does the key say where the model lies that the adapters of a resumed run are for? */
static bool is_base(const tri_config *now, const tri_key *k) {
  if (!tri_config_has_lora(now)) return false;
  return !strcmp(k->name, "model.path") || (now->critic.lora && !strcmp(k->name, "critic.path"));
}

/* k NULL: the list of rewards. An algorithm that lives on no answers has them in evaluations only. */
static bool is_experiment(const tri_config_past *before, const tri_config *now, const tri_key *k) {
  bool answers = !k || tri_key_in_section(k->name, "rollout");

  if (k && before->same_data && !strcmp(k->name, "data.train")) return false;
  /* a checkpoint of adapters knows the model they are for by its weights, wherever it lies */
  if (k && is_base(now, k)) return false;
  return (!k || k->change == TRI_CHANGE_REFUSED) && !(answers && !(now->algo.row.needs & TRI_NEEDS_ANSWERS));
}

/* Of what a resume names anew and does not read. */
static const char *remark(const tri_config *before, const tri_config *now, const tri_key *k) {
  bool adapts = before->model.dtype == TRI_F16 && before->train.optim.scaling.fixed == 0;
  bool names = k && ((!strcmp(k->name, "model.path") && now->model.path) ||
                     (!strcmp(k->name, "model.config") && now->model.config) ||
                     (!strcmp(k->name, "critic.path") && now->critic.path));

  if (k && adapts && !strcmp(k->name, "train.initial_scale_power"))
    return " (the scale goes on from the checkpoint's)";
  return names && !is_base(now, k)
             ? " (the weights stay the checkpoint's; another run.output starts from the new ones)"
             : "";
}

static tri_status put_change(const tri_config_past *before, const tri_config *now, const tri_key *k,
                             tri_config_changes *out) {
  const char *name = k ? k->name : "reward";
  bool        refused = is_experiment(before, now, k) && !tri_config_allows(now, name);
  tri_text   *to = refused ? &out->refused : &out->listed;

  TRI_TRY(tri_text_printf(to, "\n  %s: ", name));
  TRI_TRY(put_shown(before->deck, k, to));
  TRI_TRY(tri_text_put(to, " -> ", 4));
  TRI_TRY(put_shown(now, k, to));
  if (!refused) return tri_text_printf(to, "%s", remark(before->deck, now, k));
  out->for_good |= tri_key_is_adapters(name);
  return tri_text_printf(&out->keys, "%s%s", out->keys.len ? ", " : "", name);
}

/* A key of adapters that no model of one of the runs, or of both, can have. */
static bool is_idle(const tri_config *before, const tri_config *now, const tri_key *k) {
  if (!k || !tri_key_is_adapters(k->name)) return false;
  return (!tri_config_has_lora(before) && !tri_config_has_lora(now)) ||
         !tri_key_is_used(k, &before->algo.row) || !tri_key_is_used(k, &now->algo.row);
}

tri_status tri_config_compare(const tri_config_past *before, const tri_config *now, tri_config_changes *out) {
  for (int i = 0; i <= tri_n_keys; i++) {
    const tri_key *k = i < tri_n_keys ? &tri_keys[i] : NULL;
    bool           same;
    if ((k && k->change == TRI_CHANGE_HERE) || is_idle(before->deck, now, k)) continue;
    TRI_TRY(is_same(before, now, k, &same));
    if (!same) TRI_TRY(put_change(before, now, k, out));
  }
  return TRI_OK;
}

void tri_config_changes_free(tri_config_changes *c) {
  tri_text_free(&c->listed);
  tri_text_free(&c->refused);
  tri_text_free(&c->keys);
}
