/* checkpoint_find.c - finds the checkpoint that a path means: the step of LATEST, then older ones. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"
#include "base/host_memory.h"
#include "checkpoint_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Tells whether path is itself a checkpoint, by its name or its files. */
static bool is_step_folder(const char *path) {
  const char *end = path + strlen(path), *name;
  char        last[64];
  int64_t     step;

  while (end > path && end[-1] == '/') end--;
  for (name = end; name > path && name[-1] != '/'; name--) continue;
  snprintf(last, sizeof last, "%.*s", (int)(end - name), name);
  return tri_file_exists(path) && (tri_ckpt_parse_name(last, &step) != TRI_CKPT_OTHER ||
                                   tri_file_in(path, "MANIFEST.json") || tri_file_in(path, "state.h5"));
}

/* Finds the folder that holds the step folders of `path`. */
static tri_status checkpoints_of(const char *path, char dir[TRI_CKPT_PATH_BYTES]) {
  return tri_ckpt_path(dir, "%s%s", path, tri_file_in(path, "checkpoints") ? "/checkpoints" : "");
}

tri_status tri_ckpt_find_latest(const char *path, char folder[TRI_CKPT_PATH_BYTES]) {
  char    dir[TRI_CKPT_PATH_BYTES];
  int64_t latest;

  folder[0] = 0;
  TRI_TRY(checkpoints_of(path, dir));
  if (tri_ckpt_latest(AT_FDCWD, dir, &latest) != TRI_OK)
    tri_error_clear(); /* tri_ckpt_find reports a bad LATEST */
  if (latest < 0) return TRI_OK;
  TRI_TRY(tri_ckpt_step_path(folder, dir, latest, TRI_CKPT_WHOLE));
  if (!tri_file_exists(folder)) folder[0] = 0;
  return TRI_OK;
}

/* Lists the candidates in the order of trial, each with its NUL. Problems with LATEST are appended to
 * `notes`. */
static tri_status candidates(const char *path, tri_text *list, tri_text *notes) {
  tri_status     st = TRI_OK;
  tri_ckpt_steps l = {0};
  int64_t        latest = -1;
  char           dir[TRI_CKPT_PATH_BYTES], folder[TRI_CKPT_PATH_BYTES];

  if (is_step_folder(path)) return tri_text_put(list, path, strlen(path) + 1);
  TRI_TRY(checkpoints_of(path, dir));
  TRI_TRY_DONE(tri_ckpt_list(AT_FDCWD, dir, TRI_CKPT_WHOLE, &l));
  if (tri_ckpt_latest(AT_FDCWD, dir, &latest) != TRI_OK) {
    TRI_TRY_DONE(tri_text_printf(notes, "%s\n", tri_error_message()));
    tri_error_clear();
  }
  if (latest >= 0) {
    TRI_TRY_DONE(tri_ckpt_step_path(folder, dir, latest, TRI_CKPT_WHOLE));
    if (!tri_file_exists(folder))
      TRI_TRY_DONE(
          tri_text_printf(notes, "%s: LATEST names this checkpoint, but it does not exist\n", folder));
  }
  tri_ckpt_order(&l, latest);
  for (int i = 0; i < l.n; i++) {
    TRI_TRY_DONE(tri_ckpt_step_path(folder, dir, l.step[i], TRI_CKPT_WHOLE));
    TRI_TRY_DONE(tri_text_put(list, folder, strlen(folder) + 1));
  }
done:
  TRI_FREE(l.step);
  return st;
}

/* Collective over world. Copies rank 0's text to every rank. */
static tri_status share_text(tri_comm *world, tri_text *text) {
  tri_status st = TRI_OK;
  bool       gets = world && world->rank != 0;
  size_t     n = text->len;
  char      *bytes = gets ? NULL : text->data; /* rank 0 borrows its own */

  TRI_TRY_DONE(tri_ckpt_share(world, &bytes, &n));
  TRI_TRY_DONE(tri_ckpt_agree(world, gets ? tri_text_put(text, bytes, n) : TRI_OK));
done:
  if (gets) tri_host_free((void **)&bytes);
  return st;
}

/* Sets the error to the notes, one line for each damaged checkpoint. A newline ends each line. */
static tri_status fail_all(char *notes) {
  size_t first = strcspn(notes, "\n"), all = strlen(notes);

  notes[first] = 0;
  tri_fail(__FILE__, __LINE__, __func__, TRI_EFORMAT, "%s", notes);
  if (first + 1 >= all) return TRI_EFORMAT;
  notes[first] = '\n';
  notes[all - 1] = 0;
  tri_error_lines(notes + first);
  return TRI_EFORMAT;
}

tri_status tri_ckpt_find(const char *path, tri_comm *world, bool verify, tri_text *skipped,
                         char folder[TRI_CKPT_PATH_BYTES]) {
  tri_status st;
  tri_text   list = {0}, notes = {0};
  bool       decides = !world || world->rank == 0;

  folder[0] = 0;
  TRI_TRY_DONE(tri_ckpt_agree(world, decides ? candidates(path, &list, &notes) : TRI_OK));
  TRI_TRY_DONE(share_text(world, &list));
  TRI_TRY_DONE(share_text(world, &notes));
  for (size_t at = 0; at < list.len; at += strlen(list.data + at) + 1) {
    tri_ckpt_reader *r = NULL;
    st = tri_ckpt_open(list.data + at, world, verify, &r);
    tri_ckpt_close(&r);
    if (st == TRI_OK) {
      TRI_TRY_DONE(tri_ckpt_path(folder, "%s", list.data + at));
      break;
    }
    if (st != TRI_EFORMAT && st != TRI_EFILE) goto done;
    TRI_TRY_DONE(tri_text_printf(&notes, "%s\n", tri_error_message()));
    tri_error_clear();
    st = TRI_OK;
  }
  if (!folder[0] && notes.len) {
    st = fail_all(notes.data);
    goto done;
  }
  if (skipped && notes.len) TRI_TRY_DONE(tri_text_put(skipped, notes.data, notes.len));
done:
  tri_text_free(&list);
  tri_text_free(&notes);
  return st;
}
