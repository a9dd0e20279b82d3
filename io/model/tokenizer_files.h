/* tokenizer_files.h - opens a model's tokenizer from the files of its folder or checkpoint. Not collective,
 * all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TOKENIZER_FILES_H
#define TRI_TOKENIZER_FILES_H

#include "io/checkpoint/checkpoint.h"
#include "io/tokenizer/tokenizer.h"

/* Takes files with bytes as they are. Reads the others from the checkpoint r, or from the folder if r is
 * NULL. *out is NULL without a tokenizer.json. Returns TRI_EINPUT as tri_tokenizer_open_files does. */
TRI_CHECKED tri_status tri_tokenizer_files_open(const tri_tokenizer_file file[TRI_TOKENIZER_FILES],
                                                tri_ckpt_reader *r, const char *folder, tri_tokenizer **out);
/* Does the same with all files of a checkpoint. */
TRI_CHECKED tri_status tri_tokenizer_files_get(tri_ckpt_reader *r, tri_tokenizer **out);

#endif
