/* tokenizer_files.c - opens a model's tokenizer from the files of its folder or checkpoint. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tokenizer_files.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "sidecar.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 256 << 20 }; /* chosen: seven times the largest tokenizer.json in use */

/* A sidecar file that checkpoints do not copy is not used by the tokenizer either, or a resumed run would
 * have another tokenizer. */
static bool is_sidecar(const char *name) {
  for (int i = 0; i < TRI_SIDECAR_FILES; i++)
    if (!strcmp(name, tri_sidecar_name(i))) return true;
  return false;
}

/* Reads one file. bytes stays NULL if it is missing. */
static tri_status read_one(tri_ckpt_reader *r, const char *folder, const char *name, const char *path,
                           char **bytes, size_t *n) {
  if (r) return tri_ckpt_has_file(r, name) ? tri_ckpt_get_file(r, name, bytes, n) : TRI_OK;
  if (is_sidecar(name) && !tri_sidecar_follows(folder, name)) {
    if (tri_log_is_first())
      tri_log(TRI_LOG_WARN, "%s: is a link out of its folder, so its tokens are not read", path);
    return TRI_OK;
  }
  return tri_file_exists(path) ? tri_file_read(path, MOST_BYTES, bytes, n) : TRI_OK;
}

tri_status tri_tokenizer_files_open(const tri_tokenizer_file given[TRI_TOKENIZER_FILES], tri_ckpt_reader *r,
                                    const char *folder, tri_tokenizer **out) {
  tri_tokenizer_file file[TRI_TOKENIZER_FILES];
  char               path[TRI_TOKENIZER_FILES][TRI_CKPT_PATH_BYTES + 32];
  char              *bytes[TRI_TOKENIZER_FILES] = {0};
  tri_status         st = TRI_OK;

  *out = NULL;
  for (int i = 0; i < TRI_TOKENIZER_FILES; i++) {
    const char *name = tri_tokenizer_file_name(i);
    file[i] = given[i];
    if (file[i].bytes) continue;
    snprintf(path[i], sizeof path[i], "%.*s/%s", TRI_CKPT_PATH_BYTES, folder, name);
    file[i].name = path[i];
    TRI_TRY_DONE(read_one(r, folder, name, path[i], &bytes[i], &file[i].n));
    file[i].bytes = bytes[i];
    if (i == TRI_TOKENIZER_JSON && !file[i].bytes) goto done;
  }
  TRI_TRY_DONE(tri_tokenizer_open_files(file, out));
done:
  for (int i = 0; i < TRI_TOKENIZER_FILES; i++) TRI_FREE(bytes[i]);
  return st;
}

tri_status tri_tokenizer_files_get(tri_ckpt_reader *r, tri_tokenizer **out) {
  static const tri_tokenizer_file none[TRI_TOKENIZER_FILES];

  return tri_tokenizer_files_open(none, r, tri_ckpt_folder(r), out);
}
