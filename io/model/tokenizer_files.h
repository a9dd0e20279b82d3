/* tokenizer_files.h - a model's tokenizer from the files of its folder or checkpoint. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TOKENIZER_FILES_H
#define TRI_TOKENIZER_FILES_H

#include "io/checkpoint/checkpoint.h"
#include "io/tokenizer/tokenizer.h"

/* Not collective. Files that have bytes are taken as they are. The others are read from the checkpoint r, or
 * (NULL) from the folder. *out NULL: there is no tokenizer.json. TRI_EINPUT: as tri_tokenizer_open_files. */
TRI_CHECKED tri_status tri_tokenizer_files_open(const tri_tokenizer_file file[TRI_TOKENIZER_FILES],
                                                tri_ckpt_reader *r, const char *folder, tri_tokenizer **out);
/* Not collective. The same, of all files of a checkpoint. */
TRI_CHECKED tri_status tri_tokenizer_files_get(tri_ckpt_reader *r, tri_tokenizer **out);

#endif
