/* resume.c - whether a resumed run is the one its checkpoint is of: its algorithm, its deck, the lines of its data. */
#include "train.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static tri_comm *world_of(const tri_trainer *t) { return t->se->comm[TRI_WORLD]; }

/* Moments and positions in the data of one algorithm mean nothing to another. */
static tri_status check_same_algo(const tri_trainer *t, tri_ckpt_reader *r) {
  tri_text   algo = {0};
  tri_status st = tri_ckpt_get_text(r, "algo", &algo);

  if (st == TRI_OK && (!algo.data || strcmp(algo.data, t->algo->name)))
    st = tri_fail(
        __FILE__, __LINE__, __func__, TRI_ECONFIG,
        "%s is of a run of algo.name %s, the deck says %s; give run.resume: never, another run.output, or "
        "model.path: %s to start from its weights",
        t->resume, algo.data ? algo.data : "", t->algo->name, t->resume);
  tri_text_free(&algo);
  return st;
}

/* What the checkpoint's deck says; false where it holds none that can be read, which is said. */
static bool read_deck_before(tri_trainer *t, tri_ckpt_reader *r, tri_config *out) {
  tri_deck  *deck = NULL;
  char      *bytes = NULL, name[TRI_CKPT_PATH_BYTES + 16];
  size_t     n = 0;
  tri_status st = TRI_OK;

  snprintf(name, sizeof name, "%s/deck.yaml", t->resume);
  TRI_TRY_DONE(tri_ckpt_get_file(r, "deck.yaml", &bytes, &n));
  TRI_TRY_DONE(tri_deck_open_text(name, bytes, n, &deck));
  TRI_TRY_DONE(tri_config_from_deck(deck, out, NULL));
  TRI_TRY_DONE(tri_text_put(&t->deck_before, bytes, n));
done:
  tri_deck_close(&deck);
  TRI_FREE(bytes);
  if (st == TRI_OK) return true;
  tri_log(TRI_LOG_WARN, "run.resume: whether this deck is that of the checkpoint cannot be told: %s",
          tri_error_message());
  tri_error_clear();
  return false;
}

static bool is_about(const tri_config_changes *c, const char *line) {
  return (c->listed.data && strstr(c->listed.data, line)) ||
         (c->refused.data && strstr(c->refused.data, line));
}

/* The same files may hold other lines by now, and the position in them would mean others. */
static tri_status compare_data(const tri_trainer *t, tri_ckpt_reader *r, tri_config_changes *c) {
  const char *key = "data.train";
  bool        allowed = tri_config_allows(t->cfg, key);
  tri_text   *to = allowed ? &c->listed : &c->refused;
  int64_t     lines, hash;

  if (!t->data || !tri_ckpt_has_value(r, "data_hash") || is_about(c, "\n  data.train: ")) return TRI_OK;
  TRI_TRY(tri_ckpt_get_i64(r, "data_lines", &lines));
  TRI_TRY(tri_ckpt_get_i64(r, "data_hash", &hash));
  if (lines == t->data_lines && hash == t->data_hash) return TRI_OK;
  TRI_TRY(tri_text_printf(to, "\n  %s: %lld lines (hash %016llx) -> %lld lines (hash %016llx)", key,
                          (long long)lines, (unsigned long long)hash, (long long)t->data_lines,
                          (unsigned long long)t->data_hash));
  return allowed ? TRI_OK : tri_text_printf(&c->keys, "%s%s", c->keys.len ? ", " : "", key);
}

static tri_status refuse(const tri_trainer *t, const tri_config_changes *c) {
  bool       other = !strcmp(t->cfg->run.resume, "auto"); /* else the checkpoint was asked for by its path */
  tri_status st = tri_fail(
      __FILE__, __LINE__, __func__, TRI_ECONFIG,
      "%s is of another experiment than this deck; %s%s, run.allow_changes: [%s] goes on with what changed:",
      t->resume,
      other ? "run.resume: never or another run.output starts anew" : "run.resume: never with model.path: ",
      other ? "" : t->resume, c->keys.data);

  tri_error_lines(c->refused.data);
  return st;
}

/* On other numbers of ranks sums are made in another order. */
static tri_status compare_ranks(const tri_trainer *t, tri_ckpt_reader *r, tri_config_changes *c) {
  int64_t ranks;

  TRI_TRY(tri_ckpt_get_i64(r, "ranks", &ranks));
  if (ranks == world_of(t)->size) return TRI_OK;
  return tri_text_printf(&c->listed, "\n  ranks: %lld -> %d", (long long)ranks, world_of(t)->size);
}

/* Rank 0. now: the deck as used. */
static tri_status compare(tri_trainer *t, const tri_config *now) {
  tri_ckpt_reader   *r = tri_source_checkpoint(t->source);
  tri_config         before = {0};
  tri_config_changes c = {0};
  tri_text           lines = {0};
  tri_status         st = TRI_OK;

  TRI_TRY(check_same_algo(t, r));
  if (read_deck_before(t, r, &before)) TRI_TRY_DONE(tri_config_compare(&before, now, &c));
  TRI_TRY_DONE(compare_data(t, r, &c));
  if (c.refused.len) {
    st = refuse(t, &c);
    goto done;
  }
  if (!c.listed.len) tri_text_free(&t->deck_before);
  TRI_TRY_DONE(compare_ranks(t, r, &c));
  if (!c.listed.len) goto done;
  TRI_TRY_DONE(tri_text_printf(&lines, "changed since %s was written:%s", t->resume, c.listed.data));
  tri_log_lines(TRI_LOG_INFO, lines.data);
done:
  tri_text_free(&lines);
  tri_config_changes_free(&c);
  tri_config_free(&before);
  return st;
}

tri_status tri_resume_compare(tri_trainer *t, const tri_config *now) {
  if (!t->resume[0]) return TRI_OK;
  return tri_agree(world_of(t), world_of(t)->rank == 0 ? compare(t, now) : TRI_OK);
}

/* The step in deck.step-NNNNNNNN.yaml, or -1. */
static int64_t step_of(const char *name) {
  long long step;
  int       end = 0;

  return sscanf(name, "deck.step-%lld.yaml%n", &step, &end) == 1 && end && !name[end] ? step : -1;
}

tri_status tri_resume_move_decks(const char *folder, int64_t after, const char *suffix) {
  char           from[TRI_CKPT_PATH_BYTES + 300], to[TRI_CKPT_PATH_BYTES + 400];
  DIR           *dir = opendir(folder);
  struct dirent *e;
  bool           failed = false;

  while (dir && !failed && (e = readdir(dir)) != NULL) {
    if (step_of(e->d_name) <= after) continue;
    snprintf(from, sizeof from, "%s/%s", folder, e->d_name);
    snprintf(to, sizeof to, "%s%s", from, suffix ? suffix : "");
    failed = suffix ? rename(from, to) != 0 : unlink(from) != 0;
  }
  if (dir) closedir(dir);
  if (failed) TRI_FAIL(TRI_EFILE, "%s: cannot be %s", from, suffix ? "set aside" : "removed");
  return TRI_OK;
}
