/* checkpoint_publish.c - publishes the trial checkpoint, with a name and a link, and removes both. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "checkpoint_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char trial_link[] = ".TRIAL", trial_link_tmp[] = ".TRIAL.tmp";

static tri_status link_once(const char *dir) {
  char link[TRI_CKPT_PATH_BYTES], tmp[TRI_CKPT_PATH_BYTES], name[TRI_CKPT_FILE_NAME_BYTES];

  TRI_TRY(tri_ckpt_path(link, "%s/%s", dir, trial_link));
  TRI_TRY(tri_ckpt_path(tmp, "%s/%s", dir, trial_link_tmp));
  tri_ckpt_step_name(name, TRI_CKPT_TRIAL_STEP, TRI_CKPT_WHOLE);
  if ((unlink(tmp) && errno != ENOENT) || symlink(name, tmp))
    TRI_FAIL(TRI_EFILE,
             "%s: no symbolic link can be made there (%s), but LATEST must be one. Put run.output on a "
             "file system with symbolic links.",
             tmp, strerror(errno));
  if (rename(tmp, link)) TRI_FAIL(TRI_EFILE, "%s: cannot be renamed to %s: %s", tmp, link, strerror(errno));
  return TRI_OK;
}

/* Does the steps of tri_ckpt_publish, but gives the folder the name .trash. */
static tri_status publish(const char *dir) {
  char tmp[TRI_CKPT_PATH_BYTES], trash[TRI_CKPT_PATH_BYTES];

  TRI_TRY(tri_ckpt_step_path(tmp, dir, TRI_CKPT_TRIAL_STEP, TRI_CKPT_TMP));
  TRI_TRY(tri_ckpt_step_path(trash, dir, TRI_CKPT_TRIAL_STEP, TRI_CKPT_TRASH));
  TRI_TRY(tri_ckpt_remove(trash));
  TRI_TRY(link_once(dir));
  if (rename(tmp, trash)) TRI_FAIL(TRI_EFILE, "%s: cannot be renamed to %s: %s", tmp, trash, strerror(errno));
  TRI_TRY(tri_ckpt_sync(dir));
  TRI_TRY(link_once(dir)); /* now replaces an existing link */
  return tri_ckpt_remove(trash);
}

static void remove_links(const char *dir) {
  static const char *const name[] = {trial_link, trial_link_tmp};
  char                     path[TRI_CKPT_PATH_BYTES];

  for (int i = 0; i < 2; i++)
    if (tri_ckpt_path(path, "%s/%s", dir, name[i]) == TRI_OK) unlink(path);
}

tri_status tri_ckpt_rehearse_publish(const char *dir) {
  tri_status st = publish(dir);

  remove_links(dir);
  return st;
}
