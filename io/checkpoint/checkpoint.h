/* checkpoint.h - checkpoints: one parallel HDF5 file written by all ranks, whole or absent.
 *
 *   OUTPUT/checkpoints/LATEST             symbolic link to the newest
 *   OUTPUT/checkpoints/BEST               the same to the one that the run calls its best, if it does
 *   OUTPUT/checkpoints/step-00000040/     state.h5, side files, MANIFEST.json (written last)
 *
 * While it is written the folder is called step-00000040.tmp (after two requeues of the job it is
 * step-00000040.tmp-2, so that starts which overlap do not meet). Every byte is covered by a hash: the
 * tensors by those of the slabs the ranks wrote (/integrity/slabs), the rest of state.h5 and the side files
 * by those in the manifest, the manifest by its own. A tensor is one data set in its natural shape under its
 * Hugging Face name; nothing in the file but /integrity/slabs depends on the number of ranks or the shard
 * plan. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHECKPOINT_H
#define TRI_CHECKPOINT_H

#include "base/tensor.h"
#include "base/text_buffer.h"
#include "comm/comm.h"

#define TRI_CKPT_PATH_BYTES 4096         /* a folder's path with its final NUL; longer ones are refused */
enum { TRI_CKPT_PIECE_BYTES = 1 << 22 }; /* of one write and its hash at most; chosen */

/* One tensor. In calls group and name are borrowed; in what a reader hands out they are the reader's. */
typedef struct tri_ckpt_tensor {
  const char *group; /* "/model", "/optimizer/exp_avg", "/optimizer/exp_avg_sq", "/critic/..." */
  const char *name;  /* Hugging Face name; dots are part of it, a slash is refused */
  tri_dtype   dtype;
  int         ndim;             /* 1..TRI_MAX_DIM */
  int64_t     dim[TRI_MAX_DIM]; /* each > 0 */
} tri_ckpt_tensor;

typedef struct tri_ckpt_writer tri_ckpt_writer;
typedef struct tri_ckpt_reader tri_ckpt_reader;
typedef struct tri_ckpt_sweep  tri_ckpt_sweep;

/* ---- Writing. An error of any rank becomes every rank's, with its message, at the next collective call; a
 * rank that has one may go to abandon() at once, where the others follow. */

/* Collective over world (borrowed until commit or abandon). dir: OUTPUT/checkpoints, made if it is
 * missing. side_bytes: of the side files that will follow, together. Removes what an earlier writer left
 * of this step, checks that there is space, makes every data set and takes its space. TRI_EFILE: no space,
 * no right to write, a folder that not every rank sees; then nothing is left behind. */
TRI_CHECKED tri_status tri_ckpt_create(const char *dir, int64_t step, tri_comm *world,
                                       const tri_ckpt_tensor *tensor, int n_tensor, int64_t side_bytes,
                                       tri_ckpt_writer **out);
/* Not collective. This rank's elements [begin, begin + count) of flattened tensor `tensor` (its place in
 * create's list), from host memory, in the tensor's dtype; count may be 0. The ranges of all ranks and calls
 * must cover each tensor exactly once (checked by commit). */
TRI_CHECKED tri_status tri_ckpt_write(tri_ckpt_writer *w, int tensor, int64_t begin, int64_t count,
                                      const void *host);
/* Not collective. The same without a copy: take() hands out host memory for such a range, of
 * TRI_CKPT_PIECE_BYTES at most; give() says that its elements are there. A thread of this rank writes them
 * beside what the caller does next; what fails there is an error of a later call. */
TRI_CHECKED tri_status tri_ckpt_take(tri_ckpt_writer *w, int tensor, int64_t begin, int64_t count,
                                     void **host);
TRI_CHECKED tri_status tri_ckpt_give(tri_ckpt_writer *w);
/* Collective over world. Attributes of /state; a name may be used once. Text has a fixed length. */
TRI_CHECKED tri_status tri_ckpt_put_i64(tri_ckpt_writer *w, const char *name, int64_t value);
TRI_CHECKED tri_status tri_ckpt_put_text(tri_ckpt_writer *w, const char *name, const char *text);
TRI_CHECKED tri_status tri_ckpt_put_f64(tri_ckpt_writer *w, const char *name, double value);
/* Collective over world. A side file of the step folder (config.json, tokenizer.json, deck.yaml, ...); rank
 * 0's bytes are written, those of other ranks may be NULL. */
TRI_CHECKED tri_status tri_ckpt_put_file(tri_ckpt_writer *w, const char *name, const void *bytes, size_t n);
/* Not collective; rank 0's counts. What computes the run, as one JSON object (src/record/record.h): "record"
 * of MANIFEST.json. Copied. */
TRI_CHECKED tri_status tri_ckpt_put_record(tri_ckpt_writer *w, const char *record);
/* Instead of writing while its caller fills it, a checkpoint may be copied first, and be written beside the
 * caller's next work:
 *   create, lend, take and give or write, put, begin; then, where is_written says so on all ranks, commit.
 * Until commit it is no more than its .tmp folder: LATEST and all that may be found are as they were. */

/* Not collective. Of the copy's space for a range of `bytes` bytes (a piece of TRI_CKPT_PIECE_BYTES at most),
 * wherever it lies in state.h5. */
int64_t tri_ckpt_copy_bytes(int64_t bytes);
/* Not collective. Host memory of what waits for the disk while a checkpoint is written that is not lent. */
int64_t tri_ckpt_ring_bytes(void);
/* Not collective, before the first range. The copy goes to `space`, borrowed until commit, abandon or
 * drop. */
void tri_ckpt_lend(tri_ckpt_writer *w, void *space, size_t bytes);
/* Collective over world. The copy is whole, and a thread on each rank begins to write it, without MPI and
 * HDF5. Nothing can be added. On failure (TRI_EFILE) abandon follows. */
TRI_CHECKED tri_status tri_ckpt_begin(tri_ckpt_writer *w);
/* Not collective. Has this rank's thread ended, so that commit need not wait for it? */
bool tri_ckpt_is_written(const tri_ckpt_writer *w);
/* Not collective. Waits until it has. Seconds from begin until then; what failed is commit's to say. */
double tri_ckpt_wait_s(tri_ckpt_writer *w);
/* Not collective. Ends the thread and gives the space back; the folder stays, for tri_ckpt_clean. For a run
 * that ends with an error, when ranks do not meet any more. Accepts NULL, leaves NULL. */
void tri_ckpt_drop(tri_ckpt_writer **w);

/* Collective over world. Makes everything durable, writes the manifest, renames the folder, swaps LATEST. A
 * checkpoint of the same step is replaced; those between LATEST's and this one are of a run that was wound
 * back, and are removed before (a step that is a link stays). On failure (TRI_EFILE) the folder is removed
 * and LATEST is as it was. *w is freed and NULL either way. */
TRI_CHECKED tri_status tri_ckpt_commit(tri_ckpt_writer **w);
/* Collective over world. Closes and removes the unfinished folder. Accepts NULL, leaves NULL. */
void tri_ckpt_abandon(tri_ckpt_writer **w);

/* Not collective; rank 0's counts. From here on commit looks into this file before it publishes: where it is
 * there and says something else than `text`, another start of the run has taken the folder over, and this
 * one's checkpoint is not to take the place of that one's: TRI_ECONFIG. Both copied; path "": no more. */
void tri_ckpt_guard(const char *path, const char *text);
/* Not collective. Whether it does not, also where there is no guard; and the same as an error. */
bool                   tri_ckpt_guard_holds(void);
TRI_CHECKED tri_status tri_ckpt_check_guard(void);

/* ---- Before there is anything to lose. */

/* Not collective. Is the HDF5 that is loaded the one that the program was built with, with MPI? TRI_EDEVICE
 * names its file. */
TRI_CHECKED tri_status tri_ckpt_check_library(void);
/* Collective over world; NULL: this process alone, without MPI and HDF5. Whether a checkpoint can be written
 * to dir: one of a few bytes is, by the same calls and names, and removed, with all folders that were made
 * for it; one that fails is tried once more; `bytes` are asked of the disk, the quota and the limit of a
 * file, and given back. TRI_EFILE says what is in the way; TRI_EDEVICE: as tri_ckpt_check_library. */
TRI_CHECKED tri_status tri_ckpt_rehearse(const char *dir, tri_comm *world, int64_t bytes);

/* What checkpoints will take. */
typedef struct tri_ckpt_need {
  int64_t bytes;                /* of one */
  int     files;                /* of one, with its folder */
  int     sure, most;           /* more than now, at once: that will be written; that may be */
  int     sure_of_1, most_of_1; /* the same with a checkpoint.save_total_limit of 1 */
} tri_ckpt_need;
/* Not collective. TRI_EFILE: the file system of dir, which need not be there, has no space for `sure` of
 * them; a warning: not for `most`. */
TRI_CHECKED tri_status tri_ckpt_check_space(const char *dir, const tri_ckpt_need *need);
/* Not collective. Checkpoints in dir, whole or damaged. */
TRI_CHECKED tri_status tri_ckpt_count(const char *dir, int *n);

/* ---- Folders. dir is OUTPUT/checkpoints; a missing one is an empty one. */

/* Collective over world; rank 0 works. For the start of a run, when no other writes to dir: removes what
 * killed writers left, and puts back a checkpoint whose replacement did not come about. Links are removed,
 * never followed; what is another user's, or cannot be removed, is a warning. A LATEST or BEST that is no
 * link is kept: as the checkpoint it holds, where that one's name is free, else as LATEST.before-1 and so on.
 * TRI_EFILE: dir itself is another user's link, or no folder. */
TRI_CHECKED tri_status tri_ckpt_clean(const char *dir, tri_comm *world);
/* Collective over world; rank 0 works. Keeps the newest `keep` (>= 1) whole checkpoints, beside them what
 * BEST names, which does not count, and in any case what LATEST names and step in_use_step (-1: none). Newest
 * first means from LATEST backwards: a higher step is of a run that was wound back, and counts last. A step
 * that is a link is kept elsewhere: it neither counts nor goes. TRI_EFILE: some that should go are another
 * user's, or cannot be renamed. The others are removed on a thread, *sweep; NULL: on other ranks, and where
 * there is nothing to remove. */
TRI_CHECKED tri_status tri_ckpt_retain(const char *dir, int keep, int64_t in_use_step, tri_comm *world,
                                       tri_ckpt_sweep **sweep);
/* Not collective. Waits for the thread and frees *sweep, which may be NULL; before the next retain.
 * TRI_EFILE: something could not be removed. What a killed process left goes with tri_ckpt_clean. */
TRI_CHECKED tri_status tri_ckpt_sweep_end(tri_ckpt_sweep **sweep);
/* Not collective; rank 0 works, once every rank has read the checkpoint of this step. LATEST names it, so
 * that higher steps count last, as of a run that was wound back, and go as saves pass them; *moved: it named
 * another. A BEST that names one of these goes. */
TRI_CHECKED tri_status tri_ckpt_wind_back(const char *dir, int64_t step, bool *moved);
/* Not collective; rank 0 works. BEST names the checkpoint of this step, which is there. As long as it does,
 * that one stays. TRI_EFILE: the link cannot be made; TRI_ECONFIG: as tri_ckpt_check_guard. */
TRI_CHECKED tri_status tri_ckpt_point_best(const char *dir, int64_t step);
/* Not collective. The step that BEST names; -1: there is no BEST, or it names no checkpoint. */
int64_t tri_ckpt_best(const char *dir);
/* Not collective. Bytes that are free for this user where dir lies; -1: nothing tells. */
int64_t tri_ckpt_free_bytes(const char *dir);
/* Not collective. Is the checkpoint of this step there, whole or damaged? */
bool tri_ckpt_has_step(const char *dir, int64_t step);
/* Collective over world (NULL: this process alone). The checkpoint that `path` means: a step folder, a run's
 * output folder, or its checkpoints folder; of the latter two what LATEST names, then older ones, then the
 * rest, the first that opens (tri_ckpt_open with this `verify`). *skipped (borrowed, may be NULL) gets one
 * line for each damaged one passed over. folder "" and TRI_OK: there is none, damaged or not. TRI_EFORMAT:
 * all that there are, are damaged. */
TRI_CHECKED tri_status tri_ckpt_find(const char *path, tri_comm *world, bool verify, tri_text *skipped,
                                     char folder[TRI_CKPT_PATH_BYTES]);

/* Not collective. The step folder that LATEST names in `path`, a run's output folder or its checkpoints
 * folder, whole or damaged; "" where it names none that is there, and tri_ckpt_find goes on to others. */
TRI_CHECKED tri_status tri_ckpt_find_latest(const char *path, char folder[TRI_CKPT_PATH_BYTES]);

/* ---- Reading. A damaged checkpoint is TRI_EFORMAT, a disk that does not read TRI_EFILE. */

/* Collective over world (borrowed during the call; NULL: this process alone). Checks the manifest, the sizes
 * and hashes of the side files, and all of state.h5 but the tensors' own bytes; with verify those too, spread
 * over the ranks. An error of any rank is every rank's. */
TRI_CHECKED tri_status tri_ckpt_open(const char *folder, tri_comm *world, bool verify, tri_ckpt_reader **out);
void                   tri_ckpt_close(tri_ckpt_reader **r);
/* Not collective. state.h5 is closed, so that its room is free once the checkpoint is removed: from here on
 * tensors and values cannot be read, while what the manifest tells and the side files still can. */
void tri_ckpt_release(tri_ckpt_reader *r);

/* Not collective, all that follow: any rank, any order. */
int64_t     tri_ckpt_step(const tri_ckpt_reader *r);
const char *tri_ckpt_folder(const tri_ckpt_reader *r);
const char *tri_ckpt_program(const tri_ckpt_reader *r); /* "trireme 0.1.0": who wrote it */
const char *tri_ckpt_record(const tri_ckpt_reader *r);  /* what tri_ckpt_put_record had; "": nothing */
int         tri_ckpt_tensor_count(const tri_ckpt_reader *r);
const tri_ckpt_tensor *tri_ckpt_tensor_at(const tri_ckpt_reader *r, int i);
int tri_ckpt_find_tensor(const tri_ckpt_reader *r, const char *group, const char *name); /* or -1 */
/* Elements [begin, begin + count) of flattened tensor i into host memory, in the tensor's dtype. */
TRI_CHECKED tri_status tri_ckpt_read(tri_ckpt_reader *r, int i, int64_t begin, int64_t count, void *host);
/* Not collective, of a step's folder that is not open. Appends its record; nothing where there is none. */
TRI_CHECKED tri_status tri_ckpt_get_record(const char *folder, tri_text *record);
/* Attributes of /state. TRI_EFORMAT when the name is not there or of another type. */
bool                   tri_ckpt_has_value(const tri_ckpt_reader *r, const char *name);
TRI_CHECKED tri_status tri_ckpt_get_i64(tri_ckpt_reader *r, const char *name, int64_t *value);
TRI_CHECKED tri_status tri_ckpt_get_f64(tri_ckpt_reader *r, const char *name, double *value);
TRI_CHECKED tri_status tri_ckpt_get_text(tri_ckpt_reader *r, const char *name, tri_text *text); /* appended */
/* The i-th attribute of /state by name; *kind: 'i' i64, 'f' f64, 't' text. i < tri_ckpt_value_count. */
int                    tri_ckpt_value_count(const tri_ckpt_reader *r);
TRI_CHECKED tri_status tri_ckpt_value_at(tri_ckpt_reader *r, int i, tri_text *name, char *kind);
/* Side files: their names, and the bytes of one, checked again; a NUL is put behind them. *bytes by
 * tri_host_free. */
int         tri_ckpt_file_count(const tri_ckpt_reader *r);
const char *tri_ckpt_file_at(const tri_ckpt_reader *r, int i);
bool        tri_ckpt_has_file(const tri_ckpt_reader *r, const char *name);
/* Not collective. Whether there is a tensor in the group, "/critic/model". */
bool                   tri_ckpt_has_group(const tri_ckpt_reader *r, const char *group);
TRI_CHECKED tri_status tri_ckpt_get_file(tri_ckpt_reader *r, const char *name, char **bytes, size_t *n);

/* Collective over world. Whether all ranks can write `bytes` each into one HDF5 file and read them back; the
 * file is made anew at path, and stays: rank 0 removes it. Seconds of this rank, from open to close, the
 * first with what it takes to be on the disk. TRI_EFILE, the same on every rank, with HDF5's reason. */
TRI_CHECKED tri_status tri_ckpt_trial(tri_comm *world, const char *path, int64_t bytes, double *write_s,
                                      double *read_s);

#endif
