/* resume.c - compares a resumed run with its checkpoint: the algorithm, the deck, and the lines of its
 * data. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "output.h"

#include "base/file.h"
#include "base/notice.h"
#include "io/model/fingerprint.h"
#include "io/model/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Returns whether the checkpoint was found by `auto`, not given by its path. */
static bool is_auto(const tri_run *r) { return !strcmp(r->cfg->run.resume, "auto"); }

static tri_status refuse_algo(const tri_run *r, const char *before) {
  const char *instead = r->cfg->model.config ? " in place of model.config" : "";

  if (is_auto(r))
    TRI_FAIL(
        TRI_ECONFIG,
        "%s is from a run with algo.name %s, but the deck says %s. Give another run.output (with model.path: "
        "%s%s to start from its weights), or run.resume: never (starts anew and sets the old run aside)",
        r->resume, before, r->cfg->algo.name, r->resume, instead);
  TRI_FAIL(
      TRI_ECONFIG,
      "%s is from a run with algo.name %s, but the deck says %s. Give run.resume: never (starts anew). To "
      "start from its weights, also give model.path: %s%s and a run.output outside of that folder",
      r->resume, before, r->cfg->algo.name, r->resume, instead);
}

tri_status tri_run_check_algo(const tri_run *r, tri_ckpt_reader *from) {
  tri_text   algo = {0};
  tri_status st = tri_ckpt_get_text(from, "algo", &algo);

  if (st == TRI_OK && (!algo.data || strcmp(algo.data, r->cfg->algo.name)))
    st = refuse_algo(r, algo.data ? algo.data : "");
  tri_text_free(&algo);
  return st;
}

/* `text` gets the bytes of the deck. */
static tri_status read_deck_before(const tri_run *r, tri_ckpt_reader *from, tri_config *out, tri_text *text) {
  tri_deck  *deck = NULL;
  char      *bytes = NULL, name[TRI_CKPT_PATH_BYTES + 16];
  size_t     n = 0;
  tri_status st = TRI_OK;

  snprintf(name, sizeof name, "%s/deck.yaml", r->resume);
  TRI_TRY_DONE(tri_ckpt_get_file(from, "deck.yaml", &bytes, &n));
  TRI_TRY_DONE(tri_deck_open_text(name, bytes, n, &deck));
  TRI_TRY_DONE(tri_config_from_deck(deck, out, NULL));
  TRI_TRY_DONE(tri_text_put(text, bytes, n));
done:
  tri_deck_close(&deck);
  TRI_FREE(bytes);
  return st;
}

/* ---- files by their bytes ---- */

/* Appends the checkpoint's fingerprints. A checkpoint of an earlier version has none. */
static tri_status get_inputs_before(tri_ckpt_reader *from, tri_text *out) {
  char      *bytes = NULL;
  size_t     n = 0;
  tri_status st = TRI_OK;

  if (!from || !tri_ckpt_has_file(from, TRI_RUN_INPUTS_FILE)) return TRI_OK;
  TRI_TRY_DONE(tri_ckpt_get_file(from, TRI_RUN_INPUTS_FILE, &bytes, &n));
  TRI_TRY_DONE(tri_text_put(out, bytes, strnlen(bytes, n)));
done:
  TRI_FREE(bytes);
  return st;
}

/* Appends the lines of `before` with a key missing from *out. A resumed run may lack files it does not
 * read. */
static tri_status keep_gone(const char *before, tri_text *out) {
  tri_text   kept = {0};
  char       key[128];
  tri_status st = TRI_OK;

  for (const char *at = before, *end; *at; at = end) {
    size_t n = strcspn(at, "\t\n");
    end = at + strcspn(at, "\n");
    end += *end == '\n';
    if (n >= sizeof key || at[n] != '\t') continue;
    snprintf(key, sizeof key, "%.*s", (int)n, at);
    if (!tri_fingerprint_has(out->len ? out->data : "", key))
      TRI_TRY_DONE(tri_text_put(&kept, at, (size_t)(end - at)));
  }
  if (kept.len) TRI_TRY_DONE(tri_text_put(out, kept.data, kept.len));
done:
  tri_text_free(&kept);
  return st;
}

tri_status tri_run_note_inputs(tri_run *r, tri_ckpt_reader *from, const tri_config *now) {
  tri_text   before = {0};
  tri_status st = TRI_OK;

  r->inputs.len = 0;
  TRI_TRY_DONE(tri_config_inputs(now, &r->inputs));
  TRI_TRY_DONE(get_inputs_before(from, &before));
  if (before.len) TRI_TRY_DONE(keep_gone(before.data, &r->inputs));
done:
  tri_text_free(&before);
  return st;
}

/* The checkpoint's description of the lines of data.train. */
typedef struct data_before {
  bool    known; /* false for an older checkpoint */
  bool    same;  /* equal to the lines now */
  int64_t lines, hash;
} data_before;

static tri_status get_data_before(const tri_run *r, tri_ckpt_reader *from, data_before *d) {
  *d = (data_before){.known = r->cfg->data.train.n > 0 && tri_ckpt_has_value(from, "data_hash")};
  if (!d->known) return TRI_OK;
  TRI_TRY(tri_ckpt_get_i64(from, "data_lines", &d->lines));
  TRI_TRY(tri_ckpt_get_i64(from, "data_hash", &d->hash));
  d->same = d->lines == r->data_lines && d->hash == r->data_hash;
  return TRI_OK;
}

/* Compares with the checkpoint's deck, given the folder of its start and whether the data is the same. */
static tri_status compare_with(tri_ckpt_reader *from, const data_before *data, const tri_config *before,
                               const tri_config *now, tri_config_changes *c) {
  tri_text        folder = {0}, inputs = {0}, inputs_now = {0};
  tri_config_past past = {.deck = before, .same_data = data->same};
  tri_status      st = TRI_OK;

  TRI_TRY_DONE(get_inputs_before(from, &inputs));
  if (inputs.len) TRI_TRY_DONE(tri_config_inputs(now, &inputs_now));
  past.inputs = inputs.len ? inputs.data : "";
  past.inputs_now = inputs_now.len ? inputs_now.data : "";

  if (tri_ckpt_has_value(from, "start_folder"))
    TRI_TRY_DONE(tri_ckpt_get_text(from, "start_folder", &folder));
  past.folder = folder.len ? folder.data : NULL;
  TRI_TRY_DONE(tri_config_compare(&past, now, c));
done:
  tri_text_free(&folder);
  tri_text_free(&inputs);
  tri_text_free(&inputs_now);
  return st;
}

/* Appends the keys already allowed and these keys, "a, b", separated by `between`. */
static tri_status put_allowed(const tri_config *now, const char *keys, const char *between, tri_text *out) {
  const tri_config_list *list = &now->run.allow_changes;

  for (int i = 0; i < list->n; i++) TRI_TRY(tri_text_printf(out, "%s%s", list->item[i], between));
  for (const char *at = keys, *end; at; at = *end ? end + 2 : NULL) {
    end = at + strcspn(at, ",");
    TRI_TRY(tri_text_printf(out, "%.*s%s", (int)(end - at), at, *end ? between : ""));
  }
  return TRI_OK;
}

/* Compares the decks. A checkpoint without a deck is an older one. An unreadable deck might hide any change,
 * so run.allow_changes must name "deck". */
static tri_status compare_decks(tri_run *r, tri_ckpt_reader *from, const data_before *data,
                                const tri_config *now, tri_config_changes *c) {
  tri_config before = {0};
  bool       has_deck = tri_ckpt_has_file(from, "deck.yaml");
  tri_status st = has_deck ? read_deck_before(r, from, &before, &r->deck_before) : TRI_OK;
  tri_text   why = {0}, keys = {0};

  if (has_deck && st == TRI_OK) {
    st = compare_with(from, data, &before, now, c);
  } else if (!has_deck || st == TRI_ECONFIG) {
    st = tri_text_printf(&why, "%s", has_deck ? tri_error_message() : "it holds no deck.yaml");
    tri_error_clear();
    if (st == TRI_OK) st = put_allowed(now, "deck", ", ", &keys);
    if (st == TRI_OK && has_deck && !tri_config_allows(now, "deck"))
      st = tri_fail(__FILE__, __LINE__, __func__, TRI_ECONFIG,
                    "the deck of %s cannot be read, so changes cannot be checked: %s. run.resume: never or "
                    "another run.output starts anew, run.allow_changes: [%s] resumes without the check",
                    r->resume, why.data, keys.data);
    else if (st == TRI_OK)
      tri_warn("deck_not_compared", "run.resume: this deck could not be compared with the deck of %s: %s",
               r->resume, why.data);
  }
  tri_text_free(&why);
  tri_text_free(&keys);
  tri_config_free(&before);
  return st;
}

static bool is_about(const tri_config_changes *c, const char *line) {
  return (c->listed.data && strstr(c->listed.data, line)) ||
         (c->refused.data && strstr(c->refused.data, line));
}

/* Returns whether the text has a change of a key for reading lines. */
static bool has_reading(const char *text) {
  static const char data[] = "\n  data.", tokenizer[] = "\n  model.tokenizer", eval[] = "eval";

  if (!text) return false;
  for (const char *at = text; (at = strstr(at, data)) != NULL; at += sizeof data - 1)
    if (strncmp(at + sizeof data - 1, eval, sizeof eval - 1) != 0) return true;
  return strstr(text, tokenizer) != NULL;
}

/* The same files may now hold other lines, and the saved position would then mean other lines. */
static tri_status compare_data(const tri_run *r, const data_before *data, tri_config_changes *c) {
  const char *key = "data.train";
  bool        allowed = tri_config_allows(r->cfg, key);
  tri_text   *to = allowed ? &c->listed : &c->refused;
  bool        otherwise = has_reading(c->listed.data) || has_reading(c->refused.data);

  if (!data->known || data->same || is_about(c, "\n  data.train: ")) return TRI_OK;
  TRI_TRY(tri_text_printf(to, "\n  %s: %lld line%s (hash %016llx) -> %lld line%s (hash %016llx)", key,
                          (long long)data->lines, data->lines == 1 ? "" : "s", (unsigned long long)data->hash,
                          (long long)r->data_lines, r->data_lines == 1 ? "" : "s",
                          (unsigned long long)r->data_hash));
  if (data->lines == r->data_lines && otherwise)
    TRI_TRY(tri_text_printf(to, " (perhaps only by the changed keys, with the file unchanged)"));
  else if (data->lines == r->data_lines && !allowed)
    TRI_TRY(tri_text_printf(
        to, " (a file was changed in place, or the checkpoint is from a version that encoded prompt "
            "and answer separately; run.allow_changes: [data.train] resumes with the lines as read now)"));
  return allowed ? TRI_OK : tri_text_printf(&c->keys, "%s%s", c->keys.len ? ", " : "", key);
}

/* If a new model or file given in place of the former does not exist, this is reported before all other
 * changes. */
static tri_status check_paths(const tri_config *now, const tri_config_changes *c) {
  const struct {
    const char *key, *path;
    bool        is_model;
  } row[] = {{"model.path", now->model.path, true},
             {"model.config", now->model.config, false},
             {"model.tokenizer", now->model.tokenizer, false},
             {"model.ref_path", now->model.ref_path, true}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char line[32];
    snprintf(line, sizeof line, "\n  %s: ", row[i].key);
    if (!row[i].path || !strstr(c->refused.data, line) || tri_file_exists(row[i].path)) continue;
    if (row[i].is_model) return tri_error_about(tri_source_missing(row[i].path), row[i].key);
    TRI_FAIL(TRI_EINPUT, "%s: %s (%s)", row[i].path, strerror(errno), row[i].key);
  }
  return TRI_OK;
}

/* Shows each solution as the deck spells it, then as a shell does. */
static tri_status refuse(const tri_run *r, const tri_config_changes *c) {
  const char *model = is_auto(r) ? "" : r->resume;
  bool        is_aside = *model && tri_output_would_move(r->cfg, model);
  tri_text    keys = {0}, typed = {0}, ways = {0}, line = {0};
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(put_allowed(r->cfg, c->keys.data, ", ", &keys));
  TRI_TRY_DONE(put_allowed(r->cfg, c->keys.data, ",", &typed));
  if (!c->for_good) {
    TRI_TRY_DONE(tri_text_printf(&ways, ", run.allow_changes: [%s] resumes with the changes", keys.data));
    TRI_TRY_DONE(tri_text_printf(&line, "\n    'run.allow_changes=[%s]'", typed.data));
  } else {
    TRI_TRY_DONE(
        tri_text_printf(&ways, ". To resume, keep lora and critic.lora as they are in the checkpoint"));
  }
  st = tri_fail(
      __FILE__, __LINE__, __func__, TRI_ECONFIG,
      "%s is from another experiment than this deck. %s%s%s starts anew%s. On the command line, give "
      "one of\n"
      "    run.resume=never%s%s%s%s%s",
      r->resume, *model ? "run.resume: never with model.path: " : "run.resume: never or another run.output",
      model, is_aside ? " and a run.output outside of that folder" : "", ways.data,
      *model ? " 'model.path=" : "", model, *model ? "'" : "",
      *model && r->cfg->model.config ? " model.config=null model.tokenizer=null" : "",
      is_aside ? " run.output=OTHER" : "");
  if (line.len) tri_error_lines(line.data);
  tri_error_lines("\nchanged:");
  tri_error_lines(c->refused.data);
done:
  tri_text_free(&keys);
  tri_text_free(&typed);
  tri_text_free(&ways);
  tri_text_free(&line);
  return st;
}

/* Another number of ranks sums in another order. */
static tri_status compare_ranks(const tri_run *r, tri_ckpt_reader *from, tri_config_changes *c) {
  int64_t ranks;

  TRI_TRY(tri_ckpt_get_i64(from, "ranks", &ranks));
  if (ranks == r->world->size) return TRI_OK;
  return tri_text_printf(&c->listed, "\n  ranks: %lld -> %d", (long long)ranks, r->world->size);
}

/* Rank 0. `now` is the deck as used. */
static tri_status compare(tri_run *r, tri_ckpt_reader *from, const tri_config *now) {
  tri_config_changes c = {0};
  tri_text           lines = {0};
  data_before        data;
  tri_status         st = TRI_OK;

  TRI_TRY(get_data_before(r, from, &data));
  TRI_TRY_DONE(compare_decks(r, from, &data, now, &c));
  TRI_TRY_DONE(compare_data(r, &data, &c));
  if (c.refused.len) {
    TRI_TRY_DONE(check_paths(now, &c));
    st = refuse(r, &c);
    goto done;
  }
  if (!c.listed.len) tri_text_free(&r->deck_before);
  TRI_TRY_DONE(compare_ranks(r, from, &c));
  if (!c.listed.len) goto done;
  TRI_TRY_DONE(tri_text_printf(&lines, "changed since %s was written:%s", r->resume, c.listed.data));
  tri_log_lines(TRI_LOG_INFO, lines.data);
done:
  tri_text_free(&lines);
  tri_config_changes_free(&c);
  return st;
}

/* Rank 0. tri_run_compare reports an unreadable deck. */
static tri_status keep_rate(const tri_run *r, tri_ckpt_reader *from, double *rate) {
  static const double former = 1e-6; /* the default of every algorithm in earlier versions */
  tri_config          before = {0};
  tri_text            unused = {0};
  tri_status          st = TRI_OK;

  if (!r->cfg->train.rate_is_default || *rate == former || !tri_ckpt_has_file(from, "deck.yaml"))
    return TRI_OK;
  st = read_deck_before(r, from, &before, &unused);
  if (st == TRI_ECONFIG) {
    tri_error_clear();
    st = TRI_OK;
  } else if (st == TRI_OK && before.train.lr.peak == former) {
    tri_log(TRI_LOG_INFO,
            "train.learning_rate: the deck gives none. The run keeps the checkpoint's %g, the default "
            "of earlier versions. To use the default of this version, give train.learning_rate: %g",
            former, *rate);
    *rate = former;
  }
  tri_text_free(&unused);
  tri_config_free(&before);
  return st;
}

/* Rank 0. */
static tri_status keep_packed(const tri_run *r, tri_ckpt_reader *from, int64_t *packed) {
  tri_config before = {0};
  tri_text   unused = {0};
  tri_status st = TRI_OK;

  if (!tri_ckpt_has_file(from, "deck.yaml")) return TRI_OK;
  st = read_deck_before(r, from, &before, &unused);
  if (st == TRI_ECONFIG) {
    tri_error_clear();
    st = TRI_OK;
  } else if (st == TRI_OK) {
    bool counts = before.train.micro_batch_size || before.train.gradient_accumulation_steps;
    if (before.train.max_tokens_per_gpu)
      *packed = before.train.max_tokens_per_gpu;
    else if (!counts) /* an earlier version took all samples of a rank as one micro-batch */
      *packed = 0;
  }
  tri_text_free(&unused);
  tri_config_free(&before);
  return st;
}

/* Rank 0. */
static tri_status keep_factors(const tri_run *r, tri_ckpt_reader *from, int64_t *factors) {
  tri_config before = {0};
  tri_text   unused = {0};
  tri_status st = TRI_OK;

  if (!tri_ckpt_has_file(from, "deck.yaml")) return TRI_OK;
  st = read_deck_before(r, from, &before, &unused);
  if (st == TRI_ECONFIG) {
    tri_error_clear();
    st = TRI_OK;
  } else if (st == TRI_OK) {
    *factors = before.model.rope_factors;
  }
  tri_text_free(&unused);
  tri_config_free(&before);
  return st;
}

tri_status tri_run_keep_factors(const tri_run *r, tri_ckpt_reader *from, tri_rope_factors *factors) {
  int64_t now = *factors;

  if (!r->resume[0] || !from || now != TRI_FACTORS_AUTO) return TRI_OK;
  TRI_TRY(tri_agree(r->world, r->world->rank == 0 ? keep_factors(r, from, &now) : TRI_OK));
  TRI_TRY(tri_host_bcast(r->world, &now, sizeof now, 0));
  *factors = (tri_rope_factors)now;
  return TRI_OK;
}

tri_status tri_run_keep_packed(const tri_run *r, tri_ckpt_reader *from, int64_t *packed) {
  if (!r->resume[0] || !from) return TRI_OK;
  TRI_TRY(tri_agree(r->world, r->world->rank == 0 ? keep_packed(r, from, packed) : TRI_OK));
  return tri_host_bcast(r->world, packed, sizeof *packed, 0);
}

tri_status tri_run_keep_rate(const tri_run *r, tri_ckpt_reader *from, double *rate) {
  if (!r->resume[0] || !from) return TRI_OK;
  TRI_TRY(tri_agree(r->world, r->world->rank == 0 ? keep_rate(r, from, rate) : TRI_OK));
  return tri_host_bcast(r->world, rate, sizeof *rate, 0);
}

tri_status tri_run_compare(tri_run *r, tri_ckpt_reader *from, const tri_config *now) {
  if (!r->resume[0]) return TRI_OK;
  return tri_agree(r->world, r->world->rank == 0 ? compare(r, from, now) : TRI_OK);
}
