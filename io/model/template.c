/* template.c - the chat template that an export is given, and the end token that goes with it. */
#include "template.h"
#include "source.h"
#include "tokenizer_files.h"

#include <string.h>

tri_status tri_template_end(const tri_chat *chat, const tri_tokenizer *t, int32_t *out) {
  const char *end = tri_chat_end(chat);
  tri_tokens  id = {0};

  *out = -1;
  if (!end || !t) return TRI_OK;
  TRI_TRY(tri_tokenizer_encode(t, end, strlen(end), false, &id));
  if (id.n == 1) *out = id.id[0];
  tri_tokens_free(&id);
  return TRI_OK;
}

/* The model's files in a checkpoint. */
typedef struct brought {
  tri_chat_files files; /* what chat.h asks for: the bytes are those of config, jinja */
  char          *config, *jinja;
  tri_tokenizer *tokenizer; /* NULL: there is none */
} brought;

static tri_status get_small(tri_ckpt_reader *r, const char *name, char **bytes, size_t *n) {
  return tri_ckpt_has_file(r, name) ? tri_ckpt_get_file(r, name, bytes, n) : TRI_OK;
}

static tri_status read_brought(tri_ckpt_reader *r, brought *out) {
  out->files.model = tri_ckpt_folder(r);
  TRI_TRY(get_small(r, "tokenizer_config.json", &out->config, &out->files.config_bytes));
  TRI_TRY(get_small(r, "chat_template.jinja", &out->jinja, &out->files.jinja_bytes));
  out->files.config = out->config;
  out->files.jinja = out->jinja;
  return tri_tokenizer_files_get(r, &out->tokenizer);
}

/* named: by the deck; own: the model's, where it is known. */
static tri_status give(const brought *b, const tri_chat *named, const tri_chat *own, tri_text *out,
                       int32_t *end) {
  const char *trained = tri_chat_name(named), *theirs = tri_chat_name(own);
  bool        broken, brings = tri_chat_brings(&b->files, &broken);

  if (!trained) return TRI_OK;
  if (!brings && broken) {
    tri_log(TRI_LOG_WARN,
            "the model's tokenizer_config.json is not JSON: the export has it as it is, without "
            "data.chat_template: %s. Programs that use the export are to be told so.",
            trained);
  } else if (!brings) {
    TRI_TRY(tri_chat_template(named, out));
    if (out->len) TRI_TRY(tri_template_end(named, b->tokenizer, end));
  } else if (!theirs || strcmp(trained, theirs) != 0) {
    tri_log(TRI_LOG_WARN,
            "the chat template that the model brought (%s) stays in the export, and the run took "
            "data.chat_template: %s. Programs that use the export are to be told so.",
            theirs ? theirs : "not one of those known here", trained);
  }
  return TRI_OK;
}

tri_status tri_template_find(tri_ckpt_reader *r, tri_text *out, int32_t *end) {
  tri_status      st = TRI_OK;
  tri_chat_choice choice;
  brought         b = {0};
  tri_chat       *named = NULL, *own = NULL;

  *end = -1;
  TRI_TRY(tri_source_checkpoint_chat(r, &choice));
  if (choice <= TRI_CHAT_NONE) return TRI_OK;
  TRI_TRY_DONE(read_brought(r, &b));
  TRI_TRY_DONE(tri_chat_open(choice, &b.files, true, &named));
  TRI_TRY_DONE(tri_chat_open(TRI_CHAT_AUTO, &b.files, true, &own));
  TRI_TRY_DONE(give(&b, named, own, out, end));
done:
  tri_chat_close(&named);
  tri_chat_close(&own);
  tri_tokenizer_close(&b.tokenizer);
  TRI_FREE(b.config);
  TRI_FREE(b.jinja);
  return st;
}
