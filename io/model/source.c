/* source.c - opens the source of a model: a Hugging Face folder, a checkpoint, or random numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "source_impl.h"

#include "base/file.h"
#include "hint.h"
#include "hub.h"
#include "multimodal.h"
#include "io/text/deck.h"
#include "tokenizer_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DECK_WORD_BYTES = 64 };         /* chosen: longer than any choice of a key */
enum { SMALL_FILE_BYTES = 256 << 20 }; /* chosen: ten times the largest known tokenizer.json */

static const char *const file_names[TRI_SOURCE_FILES] = {"config.json", "generation_config.json",
                                                         "tokenizer.json", "tokenizer_config.json"};

const tri_model_shape *tri_source_shape(const tri_source *s) { return &s->shape; }
const tri_eos         *tri_source_eos(const tri_source *s) { return &s->eos; }
const tri_tokenizer   *tri_source_tokenizer(const tri_source *s) { return s->tokenizer; }
const tri_source_file *tri_source_file_at(const tri_source *s, int i) { return &s->file[i]; }
const char            *tri_source_name(const tri_source *s) { return s->name; }
tri_ckpt_reader       *tri_source_checkpoint(const tri_source *s) { return s->ckpt; }

int32_t tri_source_text_end(const tri_source *s) {
  return tri_eos_of_text(&s->eos, s->tokenizer ? tri_tokenizer_named(s->tokenizer, "eos_token") : -1);
}

static tri_status source_make(const char *name, tri_source **out) {
  TRI_TRY(TRI_ALLOC(*out, 1));
  snprintf((*out)->name, sizeof(*out)->name, "%s", name);
  for (int i = 0; i < TRI_SOURCE_FILES; i++) (*out)->file[i].name = file_names[i];
  return TRI_OK;
}

/* Gives the folder part of a file's path. */
static void folder_of(const char *path, char out[TRI_CKPT_PATH_BYTES]) {
  const char *slash = strrchr(path, '/');

  snprintf(out, TRI_CKPT_PATH_BYTES, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
}

/* Opens the tokenizer. tokenizer.json and tokenizer_config.json are already read. The two other files with
 * tokens lie beside them. */
static tri_status open_tokenizer(tri_source *s) {
  const tri_source_file *own = &s->file[TRI_SOURCE_TOKENIZER],
                        *config = &s->file[TRI_SOURCE_TOKENIZER_CONFIG];
  const tri_tokenizer_file file[TRI_TOKENIZER_FILES] = {
      [TRI_TOKENIZER_JSON] = {s->path[TRI_SOURCE_TOKENIZER], own->bytes, own->n},
      [TRI_TOKENIZER_CONFIG] = {s->path[TRI_SOURCE_TOKENIZER_CONFIG], config->bytes, config->n}};
  char folder[TRI_CKPT_PATH_BYTES];

  folder_of(s->path[TRI_SOURCE_TOKENIZER], folder);
  return tri_tokenizer_files_open(file, s->ckpt, folder, &s->tokenizer);
}

/* Parses the small files: shape, end tokens and tokenizer. */
static tri_status source_parse(tri_source *s) {
  const tri_source_file *c = &s->file[TRI_SOURCE_CONFIG], *g = &s->file[TRI_SOURCE_GENERATION];
  const char            *tokenizer = s->path[TRI_SOURCE_TOKENIZER];
  tri_hf_text            config = {s->path[TRI_SOURCE_CONFIG], c->bytes, c->n},
              generation = {s->path[TRI_SOURCE_GENERATION], g->bytes, g->n};

  TRI_TRY(tri_hf_config_parse(&config, g->bytes ? &generation : NULL, &s->shape, &s->eos));
  TRI_TRY(tri_hf_config_head_name(&config, s->head));
  if (!s->file[TRI_SOURCE_TOKENIZER].bytes) return TRI_OK;
  TRI_TRY(open_tokenizer(s));
  /* Added tokens may exceed vocab_size, as Gemma 3's <image_soft_token> does. A text with one is refused
   * later. */
  if (tri_tokenizer_model_size(s->tokenizer) > s->shape.V)
    TRI_FAIL(TRI_EINPUT, "%s: has ids up to %d, but the model's vocab_size is %d", tokenizer,
             tri_tokenizer_model_size(s->tokenizer) - 1, s->shape.V);
  return TRI_OK;
}

/* Replaces the config.json of a multimodal model by that of its text model. Only the text model is trained,
 * saved and exported. */
static tri_status take_half(tri_source *s) {
  tri_source_file *c = &s->file[TRI_SOURCE_CONFIG];
  tri_hf_text      config = {s->path[TRI_SOURCE_CONFIG], c->bytes, c->n};
  tri_text         half = {0};
  tri_status       st = tri_hf_config_half(&config, &half, &s->is_half);

  if (st != TRI_OK || !s->is_half) goto done;
  TRI_FREE(c->bytes);
  c->n = 0;
  TRI_TRY_DONE(tri_host_alloc(half.len + 1, 1, (void **)&c->bytes));
  memcpy(c->bytes, half.data, half.len);
  c->n = half.len;
done:
  tri_text_free(&half);
  return st;
}

static tri_status read_small(tri_source *s, int i, const char *path) {
  snprintf(s->path[i], sizeof s->path[i], "%s", path);
  TRI_TRY(tri_file_read(path, SMALL_FILE_BYTES, &s->file[i].bytes, &s->file[i].n));
  return i == TRI_SOURCE_CONFIG ? take_half(s) : TRI_OK;
}

/* Warns once on the first rank. Data of token ids needs no tokenizer, so this is no error. */
static void say_other_tokenizer(const tri_source *s) {
  const char *other = s->tokenizer ? NULL : tri_hint_tokenizer(s->name);

  if (!s->tokenizer && tri_hint_dangles(s->name, "tokenizer.json") && tri_log_is_first())
    tri_log(TRI_LOG_WARN,
            "%s: tokenizer.json is a link to a missing file, so texts cannot be read. Download the model "
            "again.",
            s->name);
  else if (other && tri_log_is_first())
    tri_log(TRI_LOG_WARN,
            "%s: has %s, but texts need a tokenizer.json. Make it with transformers: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
            s->name, other);
}

static tri_status open_folder(const char *path, bool weights, tri_source **out) {
  tri_source *s;
  char        file[TRI_CKPT_PATH_BYTES + 32];

  TRI_TRY(source_make(path, out));
  s = *out;
  for (int i = 0; i < TRI_SOURCE_FILES; i++) {
    snprintf(file, sizeof file, "%s/%s", path, file_names[i]);
    if (i == TRI_SOURCE_CONFIG || tri_file_exists(file)) TRI_TRY(read_small(s, i, file));
  }
  TRI_TRY(source_parse(s));
  say_other_tokenizer(s);
  if (!weights) return TRI_OK;
  TRI_TRY(tri_safetensors_open(path, &s->tensors));
  return s->is_half ? tri_safetensors_keep_text(s->tensors, &s->left_out) : TRI_OK;
}

static tri_status open_checkpoint(tri_ckpt_reader *r, tri_model_part part, tri_source **out) {
  tri_source *s;

  TRI_TRY(source_make(tri_ckpt_folder(r), out));
  s = *out;
  s->ckpt = r;
  s->part = part;
  s->file[TRI_SOURCE_CONFIG].name = tri_part_config(part);
  TRI_TRY(tri_part_check(r, part));
  for (int i = 0; i < TRI_SOURCE_FILES; i++) {
    snprintf(s->path[i], sizeof s->path[i], "%s/%s", s->name, s->file[i].name);
    if (i == TRI_SOURCE_CONFIG || tri_ckpt_has_file(r, s->file[i].name))
      TRI_TRY(tri_ckpt_get_file(r, s->file[i].name, &s->file[i].bytes, &s->file[i].n));
  }
  TRI_TRY(source_parse(s));
  return tri_source_read_lora(s);
}

/* Tells whether path is a Hugging Face folder. An export of a checkpoint's critic is one too. */
static bool is_folder(const char *path) {
  return tri_file_in(path, "config.json") && !tri_file_in(path, "MANIFEST.json");
}

/* Looks for weights, not for their index, because an index may arrive long before its files. */
static bool has_weights(const char *folder) {
  static const char end[] = ".safetensors";
  DIR              *d = opendir(folder);
  bool              found = false;

  for (const struct dirent *e; d && !found && (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    found = n >= sizeof end && !strcmp(e->d_name + n - (sizeof end - 1), end);
  }
  if (d) closedir(d);
  return found;
}

bool tri_source_awaits_weights(const char *path) { return is_folder(path) && !has_weights(path); }

tri_status tri_source_find_checkpoint(const char *path, tri_comm *world, bool verify,
                                      char folder[TRI_CKPT_PATH_BYTES]) {
  tri_text   skipped = {0}, text = {0};
  tri_comm  *readers = world && world->mpi ? world : NULL; /* a pretended world has only this process */
  tri_status st = tri_ckpt_find(path, readers, verify, &skipped, folder);

  if (st == TRI_OK && skipped.len && (!world || world->rank == 0)) {
    skipped.data[skipped.data[skipped.len - 1] == '\n' ? skipped.len - 1 : skipped.len] = 0;
    st = tri_text_printf(&text, "damaged checkpoints were passed over%s%s:\n%s", folder[0] ? "; taken: " : "",
                         folder, skipped.data);
    if (st == TRI_OK) tri_log_lines(TRI_LOG_WARN, text.data);
  }
  tri_text_free(&text);
  tri_text_free(&skipped);
  return st;
}

tri_status tri_source_resolve(const char *given, tri_comm *world, char out[TRI_CKPT_PATH_BYTES]) {
  char       file[TRI_CKPT_PATH_BYTES + 32], found[TRI_CKPT_PATH_BYTES] = "", path[TRI_CKPT_PATH_BYTES] = "";
  bool       first = !world || !world->mpi || world->rank == 0;
  int64_t    plain = 1;
  tri_status st = first ? tri_hub_resolve(given, true, path) : TRI_OK;

  TRI_TRY(world ? tri_agree(world, st) : st);
  TRI_TRY(tri_host_bcast(world, path, sizeof path, 0));
  memcpy(out, path, sizeof path);
  snprintf(file, sizeof file, "%s/MANIFEST.json", path);
  if (tri_file_exists(file)) {
    plain = 0;
  } else if (tri_file_exists(path)) {
    snprintf(file, sizeof file, "%s/config.json", path);
    plain = tri_file_exists(file);
  }
  TRI_TRY(tri_host_bcast(world, &plain, sizeof plain, 0)); /* rank 0's answer */
  if (plain) return TRI_OK;
  TRI_TRY(tri_source_find_checkpoint(path, world, true, found));
  if (found[0]) snprintf(out, TRI_CKPT_PATH_BYTES, "%s", found);
  return TRI_OK;
}

tri_status tri_source_missing(const char *path) {
  const char *slash = strchr(path, '/');
  char        cached[TRI_CKPT_PATH_BYTES];
  const char *base = strrchr(path, '/');
  size_t      n = strspn(path, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/");
  struct stat sb;
  bool        named; /* as on the Hub */

  if (stat(path, &sb) && errno != ENOENT && errno != ENOTDIR)
    TRI_FAIL(TRI_EINPUT, "%s: %s", path, strerror(errno));
  named = slash && slash != path && slash[1] && !strchr(slash + 1, '/') && *path != '.' && !path[n];
  if (named) {
    tri_hub_find(path, cached);
    if (cached[0])
      TRI_FAIL(TRI_EINPUT,
               "%s: there is no such model folder, checkpoint or run;\n  the Hugging Face Hub's cache has "
               "this model. Give %s",
               path, cached);
  }
  snprintf(cached, sizeof cached, "inputs/models/%s", base ? base + 1 : path);
  if (tri_file_in(cached, "config.json"))
    TRI_FAIL(TRI_EINPUT,
             "%s: there is no such model folder, checkpoint or run;\n  for trireme plan give model.path=%s, "
             "which has its config.json.\n  A run needs the whole folder (hf download ORG/NAME --local-dir "
             "FOLDER)",
             path, cached);
  if (named)
    TRI_FAIL(TRI_EINPUT,
             "%s: there is no such model folder, checkpoint or run;\n  download a model of the Hugging "
             "Face Hub first, on a machine with internet, and give its folder\n  (hf download ORG/NAME "
             "--local-dir FOLDER). trireme plan needs only its\n  config.json, and inputs/models has some.",
             path);
  TRI_FAIL(TRI_EINPUT, "%s: there is no such model folder, checkpoint or run", path);
}

tri_status tri_source_check_output(const char *path) {
  bool has_log = tri_file_in(path, "run.jsonl") || tri_file_in(path, "log.txt");

  if (has_log && (tri_file_in(path, "deck.yaml") || tri_file_in(path, "metrics.jsonl")))
    TRI_FAIL(TRI_EINPUT, "%s: is the output folder of a run without a checkpoint yet", path);
  return TRI_OK;
}

/* Opens the model of random numbers given by a checkpoint's config.json and this seed. */
static tri_status open_alike(const tri_source *s, uint64_t seed, tri_source **out) {
  const tri_source_file *from = &s->file[TRI_SOURCE_CONFIG];
  tri_source_file       *to;

  TRI_TRY(source_make(s->name, out));
  to = &(*out)->file[TRI_SOURCE_CONFIG];
  (*out)->random = true;
  (*out)->seed = seed;
  snprintf((*out)->path[TRI_SOURCE_CONFIG], sizeof(*out)->path[0], "%s", s->path[TRI_SOURCE_CONFIG]);
  TRI_TRY(tri_host_alloc(from->n + 1, 1, (void **)&to->bytes));
  memcpy(to->bytes, from->bytes, from->n);
  to->n = from->n;
  return source_parse(*out);
}

/* Opens the base model of a checkpoint with adapters, at `path` or (NULL) at its path in the run. */
static tri_status open_base(tri_source *s, const char *path) {
  const tri_base_note *b = &s->note;

  if (!s->lora.rank || s->fresh_lora || s->base) return TRI_OK;
  if (!b->path[0] && !path) return open_alike(s, b->seed, &s->base);
  if (!path && !tri_file_exists(b->path))
    TRI_FAIL(TRI_EINPUT,
             "%s: holds only adapters, and their base model %s is gone;\n  put it back there (a "
             "link is enough), or name its folder now:\n  %s in the deck of the resumed run, --base of a "
             "command.\n  For every other path of a deck, trireme export --base merges both into one "
             "model.",
             s->name, b->path, s->part == TRI_PART_CRITIC ? "critic.path" : "model.path");
  if (!path) path = b->path;
  TRI_TRY(tri_source_open_part(path, is_folder(path) ? TRI_PART_MAIN : b->part, NULL, true, &s->base));
  return tri_source_check_plain(s->base);
}

static tri_status fail_unknown(const char *path) {
  tri_text   hint = {0};
  tri_status st = tri_hint_model(path, &hint);

  if (st != TRI_OK) return st;
  tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT,
           "%s: is neither a Hugging Face folder (no config.json)\n  nor a checkpoint (no "
           "MANIFEST.json) nor the output folder of a run (no checkpoints/LATEST)",
           path);
  if (hint.len) tri_error_lines(hint.data);
  tri_text_free(&hint);
  return TRI_EINPUT;
}

tri_status tri_source_open_over(const char *given, tri_model_part part, const char *base, tri_comm *world,
                                bool weights, tri_source **out) {
  char             file[TRI_CKPT_PATH_BYTES + 32], folder[TRI_CKPT_PATH_BYTES], path[TRI_CKPT_PATH_BYTES];
  tri_ckpt_reader *r = NULL;
  tri_status       st;

  *out = NULL;
  TRI_TRY(tri_hub_resolve(given, true, path));
  snprintf(file, sizeof file, "%s/MANIFEST.json", path);
  bool checkpoint = tri_file_exists(file);
  snprintf(file, sizeof file, "%s/config.json", path);
  if (!checkpoint && tri_file_exists(file)) {
    if (part != TRI_PART_MAIN)
      TRI_FAIL(TRI_EINPUT, "%s: is a model's folder and holds no second model", path);
    return open_folder(path, weights, out);
  }
  if (!tri_file_exists(path)) return tri_source_missing(path);
  TRI_TRY(tri_source_find_checkpoint(path, world, false, folder));
  if (!folder[0]) TRI_TRY(tri_source_check_output(path));
  if (!folder[0] && tri_file_in(path, "adapter_config.json"))
    TRI_FAIL(TRI_EINPUT,
             "%s: holds adapters (adapter_config.json), no model;\n  in a deck give their base model as "
             "model.path, and this folder as lora.path.\n  generate, eval and score take it with --base and "
             "their base model.\n  Otherwise give the output folder of their run, or a model merged by "
             "trireme export.",
             path);
  if (!folder[0]) return fail_unknown(path);
  TRI_TRY(tri_ckpt_open(folder, world, false, &r));
  st = open_checkpoint(r, part, out);
  if (*out)
    (*out)->own_ckpt = true;
  else
    tri_ckpt_close(&r);
  return st == TRI_OK && weights ? open_base(*out, base) : st;
}

tri_status tri_source_open(const char *path, tri_comm *world, bool weights, tri_source **out) {
  return tri_source_open_part(path, TRI_PART_MAIN, world, weights, out);
}

tri_status tri_source_open_part(const char *path, tri_model_part part, tri_comm *world, bool weights,
                                tri_source **out) {
  return tri_source_open_over(path, part, NULL, world, weights, out);
}

tri_status tri_source_open_random(const char *config, const char *tokenizer, uint64_t seed,
                                  tri_source **out) {
  char folder[TRI_CKPT_PATH_BYTES], file[TRI_CKPT_PATH_BYTES + 32];

  folder_of(config, folder);
  TRI_TRY(source_make(folder, out));
  (*out)->random = true;
  (*out)->seed = seed;
  TRI_TRY(read_small(*out, TRI_SOURCE_CONFIG, config));
  snprintf(file, sizeof file, "%s/generation_config.json", folder);
  if (tri_file_exists(file)) TRI_TRY(read_small(*out, TRI_SOURCE_GENERATION, file));
  if (tokenizer) {
    TRI_TRY(read_small(*out, TRI_SOURCE_TOKENIZER, tokenizer));
    folder_of(tokenizer, folder);
    snprintf(file, sizeof file, "%s/tokenizer_config.json", folder);
    if (tri_file_exists(file)) TRI_TRY(read_small(*out, TRI_SOURCE_TOKENIZER_CONFIG, file));
  }
  return source_parse(*out);
}

tri_status tri_source_read_sidecar(const tri_source *s, tri_sidecar *out) {
  char        folder[TRI_CKPT_PATH_BYTES];
  const char *path = s->path[TRI_SOURCE_TOKENIZER];

  if (s->ckpt) return tri_sidecar_get(s->ckpt, out);
  if (!s->random) return tri_sidecar_read(s->name, out);
  if (!path[0]) return TRI_OK;
  folder_of(path, folder);
  return tri_sidecar_read(folder, out);
}

/* Appends a checkpoint's file about the folder. */
static tri_status copy_note(tri_ckpt_reader *r, tri_text *out) {
  char      *bytes = NULL;
  size_t     n;
  tri_status st;

  if (!tri_ckpt_has_file(r, TRI_SOURCE_MULTIMODAL_FILE)) return TRI_OK;
  TRI_TRY(tri_ckpt_get_file(r, TRI_SOURCE_MULTIMODAL_FILE, &bytes, &n));
  st = tri_text_put(out, bytes, n);
  TRI_FREE(bytes);
  return st;
}

tri_status tri_source_multimodal(const tri_source *s, tri_text *out) {
  const tri_source *folder = s->base ? s->base : s; /* a base model may have moved since the checkpoint */

  if (folder->is_half && folder->tensors) return tri_multimodal_note(folder->name, out);
  return s->ckpt ? copy_note(s->ckpt, out) : TRI_OK;
}

void tri_source_release(tri_source *s) {
  if (s->ckpt) tri_ckpt_release(s->ckpt);
  if (s->base) tri_source_release(s->base);
}

void tri_source_close(tri_source **s) {
  if (!*s) return;
  tri_source_close(&(*s)->base);
  tri_safetensors_close(&(*s)->adapters);
  tri_base_note_free(&(*s)->note);
  tri_safetensors_close(&(*s)->tensors);
  if ((*s)->own_ckpt) tri_ckpt_close(&(*s)->ckpt);
  tri_tokenizer_close(&(*s)->tokenizer);
  for (int i = 0; i < TRI_SOURCE_FILES; i++) TRI_FREE((*s)->file[i].bytes);
  TRI_FREE(*s);
}

/* Gives the value of a key in the deck of a checkpoint's run, or "" if the deck has none. */
static tri_status deck_word(tri_ckpt_reader *r, const char *section, const char *key,
                            char out[DECK_WORD_BYTES]) {
  tri_status st = TRI_OK;
  char      *bytes = NULL;
  size_t     n;
  tri_deck  *deck = NULL;

  out[0] = 0;
  if (!tri_ckpt_has_file(r, "deck.yaml")) return TRI_OK;
  TRI_TRY(tri_ckpt_get_file(r, "deck.yaml", &bytes, &n));
  TRI_TRY_DONE(tri_deck_open_text("deck.yaml", bytes, n, &deck));
  for (int i = 0; i < tri_deck_count(deck); i++) {
    const tri_deck_entry *e = tri_deck_at(deck, i);
    if (!strcmp(e->section, section) && !strcmp(e->key, key)) snprintf(out, DECK_WORD_BYTES, "%s", e->value);
  }
done:
  tri_deck_close(&deck);
  TRI_FREE(bytes);
  return st;
}

tri_status tri_source_checkpoint_dtype(tri_ckpt_reader *r, tri_dtype *out) {
  char word[DECK_WORD_BYTES];

  *out = TRI_BF16;
  TRI_TRY(deck_word(r, "model", "dtype", word));
  for (int t = TRI_F32; t <= TRI_F16; t++)
    if (!strcmp(word, tri_dtype_word((tri_dtype)t))) *out = (tri_dtype)t;
  return TRI_OK;
}

tri_status tri_source_checkpoint_factors(tri_ckpt_reader *r, tri_rope_factors *out) {
  char word[DECK_WORD_BYTES];

  TRI_TRY(deck_word(r, "model", "rope_factors", word));
  *out = !strcmp(word, "long")    ? TRI_FACTORS_LONG
         : !strcmp(word, "short") ? TRI_FACTORS_SHORT
                                  : TRI_FACTORS_AUTO;
  return TRI_OK;
}

tri_status tri_source_checkpoint_applies(tri_ckpt_reader *r, bool *out) {
  char word[DECK_WORD_BYTES];

  TRI_TRY(deck_word(r, "data", "apply_chat_template", word));
  *out = !strcmp(word, "true");
  return TRI_OK;
}

tri_status tri_source_checkpoint_answer(tri_ckpt_reader *r, int64_t *tokens) {
  char      word[DECK_WORD_BYTES], *end;
  long long n;

  *tokens = 0;
  TRI_TRY(deck_word(r, "rollout", "max_response_length", word));
  errno = 0;
  n = strtoll(word, &end, 10);
  if (end != word && !*end && !errno && n > 0) *tokens = n;
  return TRI_OK;
}

tri_status tri_source_dtype(const tri_source *s, tri_dtype *out) {
  const tri_source_file *f = &s->file[TRI_SOURCE_CONFIG];
  tri_hf_text            config = {s->path[TRI_SOURCE_CONFIG], f->bytes, f->n};

  if (s->ckpt) return tri_source_checkpoint_dtype(s->ckpt, out);
  return tri_hf_config_dtype(&config, out);
}
