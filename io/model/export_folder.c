/* export_folder.c - finds the multimodal folder that an exported text model was taken from. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "export_impl.h"

#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "family/family.h"
#include "hub.h"
#include "multimodal.h"

#include <stdio.h>

bool tri_export_has_folder(const tri_export_job *j) {
  return j->opt->part != TRI_PART_CRITIC && !j->shape.scored &&
         tri_ckpt_has_file(j->r, TRI_SOURCE_MULTIMODAL_FILE);
}

/* Warns that the folder is gone (differ is NULL), or which of its files have changed. */
static void warn_of_folder(const tri_export_job *j, const char *folder, const char *differ) {
  const char *name = j->shape.family->architecture, *was = differ ? "has changed since, in " : "is gone";

  if (!differ) differ = "";
  if (j->opt->adapter)
    tri_log(
        TRI_LOG_WARN,
        "%s: its text model was taken from the multimodal model %s, which %s%s. The adapters get the names "
        "of the text model alone (%s)",
        tri_ckpt_folder(j->r), folder, was, differ, name);
  else
    tri_log(TRI_LOG_WARN,
            "%s: its text model was taken from the multimodal model %s, which %s%s. Only the text model is "
            "written (%s). If an unchanged copy lies elsewhere, name it by --base",
            tri_ckpt_folder(j->r), folder, was, differ, name);
}

/* Takes the folder at `path` if it has the files named in the note. `asked`: the user named it, so that
 * another one is an error. */
static tri_status take_folder(tri_export_job *j, const char *note, const char *path, bool asked) {
  tri_text   differ = {0};
  bool       there = tri_file_in(path, "config.json");
  tri_status st = TRI_OK;

  if (there) TRI_TRY_DONE(tri_multimodal_differ(note, path, &differ));
  if (asked && (!there || differ.len))
    TRI_FAIL_DONE(
        TRI_EINPUT,
        "%s: is not the multimodal folder that the model of %s was taken from (%s). Give that folder, "
        "unchanged.",
        path, tri_ckpt_folder(j->r), there ? differ.data : "no config.json");
  if (there && !differ.len)
    snprintf(j->folder, sizeof j->folder, "%s", path);
  else
    warn_of_folder(j, path, there ? differ.data : NULL);
done:
  tri_text_free(&differ);
  return st;
}

/* The base model of adapters may have moved. Its text tensors are compared when they are read. */
tri_status tri_export_find_folder(tri_export_job *j) {
  const tri_source *base = j->adapted ? j->adapted->base : NULL;
  char             *note = NULL, path[TRI_CKPT_PATH_BYTES];
  size_t            n;
  tri_status        st = TRI_OK;

  if (base && base->is_half && !j->shape.scored && (j->opt->base || !tri_export_has_folder(j))) {
    snprintf(j->folder, sizeof j->folder, "%s", base->name);
  } else if (tri_export_has_folder(j)) {
    TRI_TRY_DONE(tri_ckpt_get_file(j->r, TRI_SOURCE_MULTIMODAL_FILE, &note, &n));
    TRI_TRY_DONE(tri_multimodal_path(TRI_SOURCE_MULTIMODAL_FILE, note, path));
    bool asked = j->opt->base && !j->adapted;
    if (asked) TRI_TRY_DONE(tri_hub_resolve(j->opt->base, true, path));
    TRI_TRY_DONE(take_folder(j, note, path, asked));
  }
  if (j->folder[0] && !j->opt->adapter) TRI_TRY_DONE(tri_safetensors_open(j->folder, &j->whole));
done:
  TRI_FREE(note);
  return st;
}
