/* rollout_case.h - writes a step of a rollout as a file for replay. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_ROLLOUT_CASE_H
#define TRI_TESTS_ROLLOUT_CASE_H

#include "base/folder.h"
#include "io/data/rollout_file.h"

/* Writes FOLDER/step-NNNNNNNN.jsonl. If reward_name is NULL there are no parts of rewards and no advantages.
 * text is [n_seq] or NULL. */
static inline tri_status case_write_rollout(const char *folder, int64_t step, const tri_rollout *r,
                                            const char *const *reward_name, const tri_rollout_text *text) {
  static const char *const none[] = {NULL};
  const tri_rollout_form   form = {reward_name ? reward_name : none, reward_name != NULL, NULL};
  char                     path[TRI_FILE_PATH_BYTES];
  tri_text                 all = {0};
  tri_status               st = tri_folder_make(folder);

  if (st == TRI_OK) st = tri_rollout_file_path(folder, step, path);
  for (int q = 0; st == TRI_OK && q < r->n_seq; q++) {
    st = tri_rollout_file_line(r, q, &form, text ? &text[q] : NULL, &all);
    if (st == TRI_OK) st = tri_text_put(&all, "\n", 1);
  }
  if (st == TRI_OK) st = tri_file_write(path, all.data, all.len);
  tri_text_free(&all);
  return st;
}

#endif
