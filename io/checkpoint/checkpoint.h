/* checkpoint.h - writes and reads checkpoints, each one HDF5 file written by all ranks, whole or absent.
 *
 *   OUTPUT/checkpoints/LATEST             symbolic link to the newest checkpoint
 *   OUTPUT/checkpoints/BEST               symbolic link to the best checkpoint, if the run names one
 *   OUTPUT/checkpoints/step-00000040/     state.h5, side files, MANIFEST.json (written last)
 *
 * While a checkpoint is written, its folder is called step-00000040.tmp. After two requeues of the job it is
 * called step-00000040.tmp-2, so that overlapping starts of one run use different folders.
 *
 * Hashes cover every byte. The tensors are hashed in slabs, as the ranks wrote them (/integrity/slabs). The
 * manifest has the hashes of the rest of state.h5 and of the side files, and ends with a hash of itself.
 * Each tensor is one data set in its natural shape under its Hugging Face name. Only /integrity/slabs depends
 * on the number of ranks or the shard plan. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHECKPOINT_H
#define TRI_CHECKPOINT_H

#include "base/tensor.h"
#include "base/text_buffer.h"
#include "comm/comm.h"

#define TRI_CKPT_PATH_BYTES 4096         /* with the final NUL; longer paths are refused */
enum { TRI_CKPT_PIECE_BYTES = 1 << 22 }; /* the largest write, with one hash; chosen */

/* One tensor. As an argument, its group and name are borrowed. In a tensor from a reader, the reader owns
 * them. */
typedef struct tri_ckpt_tensor {
  const char *group; /* "/model", "/optimizer/exp_avg", "/optimizer/exp_avg_sq", "/critic/..." */
  const char *name;  /* Hugging Face name; may have dots, no slash */
  tri_dtype   dtype;
  int         ndim;             /* 1..TRI_MAX_DIM */
  int64_t     dim[TRI_MAX_DIM]; /* each > 0 */
} tri_ckpt_tensor;

typedef struct tri_ckpt_writer tri_ckpt_writer;
typedef struct tri_ckpt_reader tri_ckpt_reader;
typedef struct tri_ckpt_sweep  tri_ckpt_sweep;

/* ---- Writing. After an error on one rank, the next collective call fails on every rank with the same
 * message. The failing rank may call tri_ckpt_abandon at once, and the others then follow. */

/* Collective over world, borrowed until commit or abandon. Starts the checkpoint of a step. dir is
 * OUTPUT/checkpoints and is made if it is missing. side_bytes is the total size of the side files to follow.
 * Removes an earlier writer's files of this step, checks the free space, makes every data set and reserves
 * its space. Returns TRI_EFILE if space or permission is missing, or if some rank does not see the folder.
 * Nothing is left behind then. */
TRI_CHECKED tri_status tri_ckpt_create(const char *dir, int64_t step, tri_comm *world,
                                       const tri_ckpt_tensor *tensor, int n_tensor, int64_t side_bytes,
                                       tri_ckpt_writer **out);
/* Not collective. Writes this rank's elements [begin, begin + count) of a flattened tensor from host memory,
 * in the tensor's dtype. `tensor` is the index in create's list. count may be 0. The ranges of all ranks and
 * calls must cover each tensor exactly once, and commit checks this. */
TRI_CHECKED tri_status tri_ckpt_write(tri_ckpt_writer *w, int tensor, int64_t begin, int64_t count,
                                      const void *host);
/* Not collective. The two calls write a range without a copy. take() returns host memory for a range of at
 * most TRI_CKPT_PIECE_BYTES. The caller fills it and calls give(). A thread of this rank then writes the
 * range while the caller goes on. If the thread fails, a later call returns the error. */
TRI_CHECKED tri_status tri_ckpt_take(tri_ckpt_writer *w, int tensor, int64_t begin, int64_t count,
                                     void **host);
TRI_CHECKED tri_status tri_ckpt_give(tri_ckpt_writer *w);
/* Collective over world. The three calls add attributes to /state. A name may be used once. Text is stored
 * with a fixed length. */
TRI_CHECKED tri_status tri_ckpt_put_i64(tri_ckpt_writer *w, const char *name, int64_t value);
TRI_CHECKED tri_status tri_ckpt_put_text(tri_ckpt_writer *w, const char *name, const char *text);
TRI_CHECKED tri_status tri_ckpt_put_f64(tri_ckpt_writer *w, const char *name, double value);
/* Collective over world. Adds a side file to the step folder (config.json, tokenizer.json, deck.yaml, ...).
 * Rank 0's bytes are written. Other ranks may pass NULL. */
TRI_CHECKED tri_status tri_ckpt_put_file(tri_ckpt_writer *w, const char *name, const void *bytes, size_t n);
/* Not collective. Stores a copy of the run's record, one JSON object with its program, libraries and nodes
 * (src/record/record.h), as "record" of MANIFEST.json. Only rank 0's record is written. */
TRI_CHECKED tri_status tri_ckpt_put_record(tri_ckpt_writer *w, const char *record);
/* A checkpoint can be written while its caller fills it. It can also be copied first and written while the
 * caller does its next work. The calls are then
 *   create, lend, take and give or write, put, begin; and commit, once is_written is true on all ranks.
 * Until commit the checkpoint is only its .tmp folder. LATEST and finished checkpoints stay as they are. */

/* Not collective. Returns how many bytes the copy needs for a range of `bytes` bytes (at most
 * TRI_CKPT_PIECE_BYTES) at any place in state.h5. */
int64_t tri_ckpt_copy_bytes(int64_t bytes);
/* Not collective. Returns the bytes of the host buffer for data on its way to the disk, if no memory is
 * lent. */
int64_t tri_ckpt_ring_bytes(void);
/* Not collective. Lends the memory `space` for the copy, until commit, abandon or drop. Call it before the
 * first range. */
void tri_ckpt_lend(tri_ckpt_writer *w, void *space, size_t bytes);
/* Collective over world. Declares the copy complete. A thread on each rank begins to write it, without MPI
 * and HDF5. Nothing can be added afterwards. After a failure (TRI_EFILE) call abandon. */
TRI_CHECKED tri_status tri_ckpt_begin(tri_ckpt_writer *w);
/* Not collective. Tells whether this rank's thread has ended. If so, commit need not wait for it. */
bool tri_ckpt_is_written(const tri_ckpt_writer *w);
/* Not collective. Waits for the end of the thread and returns the seconds from begin until then. commit
 * reports its failures. */
double tri_ckpt_wait_s(tri_ckpt_writer *w);
/* Not collective. Ends the thread, returns the lent memory and frees *w. The folder stays until
 * tri_ckpt_clean. Use it when a run ends with an error and the ranks no longer make collective calls. Accepts
 * NULL, leaves NULL. */
void tri_ckpt_drop(tri_ckpt_writer **w);

/* Collective over world. Makes everything durable, writes the manifest, renames the folder and replaces
 * LATEST. An older checkpoint of the same step is replaced. Checkpoints between the step of LATEST and this
 * step are abandoned (see Folders below) and are removed first, except steps that are links. On failure
 * (TRI_EFILE) the folder is removed and LATEST stays as it was. *w is freed and NULL in both cases. */
TRI_CHECKED tri_status tri_ckpt_commit(tri_ckpt_writer **w);
/* Collective over world. Closes and removes the unfinished folder. Accepts NULL, leaves NULL. */
void tri_ckpt_abandon(tri_ckpt_writer **w);

/* Not collective. Only rank 0's call has an effect. Sets a guard file. Before commit publishes, it reads this
 * file. If the file exists with contents other than `text`, another start of the run has taken over the
 * folder. commit then fails with TRI_ECONFIG, so that this start does not replace the other's checkpoint.
 * Both strings are copied. An empty path removes the guard. */
void tri_ckpt_guard(const char *path, const char *text);
/* Not collective. The first call tells whether the folder still belongs to this start. Without a guard it
 * does. The second call returns TRI_ECONFIG if it does not. */
bool                   tri_ckpt_guard_holds(void);
TRI_CHECKED tri_status tri_ckpt_check_guard(void);

/* ---- Checks at the start of a run. */

/* Not collective. Checks the loaded HDF5. It must have MPI, and its version must be that of this program's
 * build. Otherwise returns TRI_EDEVICE and names the library's file. */
TRI_CHECKED tri_status tri_ckpt_check_library(void);
/* Collective over world. With NULL, checks this process alone, without MPI and HDF5. Tests writing to dir
 * by a checkpoint of a few bytes, made with the usual calls and names. Removes it, and all folders made
 * for it. Tries a second time after a failure. Also reserves `bytes` bytes against the disk, the quota and
 * the file size limit, and frees them. TRI_EFILE reports the obstacle. TRI_EDEVICE comes from
 * tri_ckpt_check_library. */
TRI_CHECKED tri_status tri_ckpt_rehearse(const char *dir, tri_comm *world, int64_t bytes);

/* Future checkpoints on the disk. */
typedef struct tri_ckpt_need {
  int64_t bytes;                /* one checkpoint's bytes */
  int     files;                /* one checkpoint's files, with its folder */
  int     sure, most;           /* extra checkpoints at one time: surely, at most */
  int     sure_of_1, most_of_1; /* the same if checkpoint.save_total_limit were 1 */
} tri_ckpt_need;
/* Not collective. Returns TRI_EFILE if the file system of dir has no space for `sure` checkpoints, and warns
 * if it has none for `most`. dir need not exist. */
TRI_CHECKED tri_status tri_ckpt_check_space(const char *dir, const tri_ckpt_need *need);
/* Not collective. Counts the checkpoints in dir, whole or damaged. */
TRI_CHECKED tri_status tri_ckpt_count(const char *dir, int *n);

/* ---- Folders. dir is OUTPUT/checkpoints. A missing folder counts as an empty one. After a run is wound
 * back, LATEST names the step it went on from. Checkpoints of higher steps are abandoned: they come last in
 * order, and saves remove them as they pass. */

/* Collective over world. Only rank 0 works. Cleans dir at the start of a run, while no other run writes to
 * it. Removes the leftovers of killed writers, and restores a checkpoint if its replacement was not finished.
 * Links are removed and never followed. Folders of other users and failed removals cause a warning. If LATEST
 * or BEST is no link, it is kept. If it holds a checkpoint and the name of its step is free, it gets this
 * name, otherwise LATEST.before-1 and so on. Returns TRI_EFILE if dir itself is another user's link, or no
 * folder. */
TRI_CHECKED tri_status tri_ckpt_clean(const char *dir, tri_comm *world);
/* Collective over world. Only rank 0 works. Keeps the newest `keep` (>= 1) whole checkpoints. Also keeps the
 * checkpoints named by LATEST and BEST, and step in_use_step (-1 for none). BEST does not count among the
 * `keep`. The order starts at LATEST and goes back, and abandoned steps count last. A step that is a link
 * lies elsewhere, so it is neither counted nor removed. Returns TRI_EFILE if an old checkpoint belongs to
 * another user or cannot be renamed. A thread removes the others. *sweep is its handle, or NULL on other
 * ranks and if there is nothing to remove. */
TRI_CHECKED tri_status tri_ckpt_retain(const char *dir, int keep, int64_t in_use_step, tri_comm *world,
                                       tri_ckpt_sweep **sweep);
/* Not collective. Waits for the thread and frees *sweep, which may be NULL. Call it before the next
 * tri_ckpt_retain. Returns TRI_EFILE if a folder could not be removed. tri_ckpt_clean removes the leftovers
 * of a killed process. */
TRI_CHECKED tri_status tri_ckpt_sweep_end(tri_ckpt_sweep **sweep);
/* Not collective. Only rank 0 works, once every rank has read the checkpoint of this step. Makes LATEST name
 * this step and sets *moved if LATEST named another. Higher steps are abandoned from then on. If BEST names a
 * higher step, it is removed. */
TRI_CHECKED tri_status tri_ckpt_wind_back(const char *dir, int64_t step, bool *moved);
/* Not collective. Only rank 0 works. Makes BEST name the checkpoint of this step, which must exist. The
 * checkpoint is kept as long as BEST names it. Returns TRI_EFILE if the link cannot be made, and TRI_ECONFIG
 * as tri_ckpt_check_guard does. */
TRI_CHECKED tri_status tri_ckpt_point_best(const char *dir, int64_t step);
/* Not collective. Returns the step that BEST names, or -1 if BEST is missing or names no existing
 * checkpoint. */
int64_t tri_ckpt_best(const char *dir);
/* Not collective. Returns the bytes free for this user in the file system of dir, or -1 if the file system
 * does not tell. */
int64_t tri_ckpt_free_bytes(const char *dir);
/* Not collective. Tells whether the checkpoint of this step exists, whole or damaged. */
bool tri_ckpt_has_step(const char *dir, int64_t step);
/* Collective over world (NULL for this process alone). Finds the checkpoint meant by `path`. This is a step
 * folder, a run's output folder or its checkpoints folder. In the latter two it tries the step of LATEST,
 * then older ones, then the rest, and takes the first to open (tri_ckpt_open with this `verify`). *skipped
 * (borrowed, may be NULL) gets one line for each damaged checkpoint passed over. Returns TRI_OK with folder
 * "" if there is no checkpoint, and TRI_EFORMAT if all are damaged. */
TRI_CHECKED tri_status tri_ckpt_find(const char *path, tri_comm *world, bool verify, tri_text *skipped,
                                     char folder[TRI_CKPT_PATH_BYTES]);

/* Not collective. Finds the step folder named by LATEST, whole or damaged. `path` is a run's output folder or
 * its checkpoints folder. folder is "" if LATEST names no existing folder. In this case tri_ckpt_find tries
 * other steps. */
TRI_CHECKED tri_status tri_ckpt_find_latest(const char *path, char folder[TRI_CKPT_PATH_BYTES]);

/* ---- Reading. A damaged checkpoint is TRI_EFORMAT. A disk error is TRI_EFILE. */

/* Collective over world (borrowed during the call, or NULL for this process alone). Opens a checkpoint.
 * Checks the manifest, the sizes and hashes of the side files, and all of state.h5 except the bytes of the
 * tensors. With verify it checks those too, divided among the ranks. An error on any rank is returned on
 * every rank. */
TRI_CHECKED tri_status tri_ckpt_open(const char *folder, tri_comm *world, bool verify, tri_ckpt_reader **out);
void                   tri_ckpt_close(tri_ckpt_reader **r);
/* Not collective. Closes state.h5, so that removing the checkpoint frees its disk space. Tensors and values
 * cannot be read afterwards. The manifest's values and the side files still can. */
void tri_ckpt_release(tri_ckpt_reader *r);

/* Not collective, all that follow. Any rank may make these calls in any order. */
int64_t                tri_ckpt_step(const tri_ckpt_reader *r);
const char            *tri_ckpt_folder(const tri_ckpt_reader *r);
const char            *tri_ckpt_program(const tri_ckpt_reader *r); /* the writer, "trireme 0.1.0" */
const char            *tri_ckpt_record(const tri_ckpt_reader *r);  /* from tri_ckpt_put_record, or "" */
int                    tri_ckpt_tensor_count(const tri_ckpt_reader *r);
const tri_ckpt_tensor *tri_ckpt_tensor_at(const tri_ckpt_reader *r, int i);
int tri_ckpt_find_tensor(const tri_ckpt_reader *r, const char *group, const char *name); /* or -1 */
/* Reads elements [begin, begin + count) of flattened tensor i into host memory, in the tensor's dtype. */
TRI_CHECKED tri_status tri_ckpt_read(tri_ckpt_reader *r, int i, int64_t begin, int64_t count, void *host);
/* Not collective. Appends the record of a closed step folder, or nothing if it has none. */
TRI_CHECKED tri_status tri_ckpt_get_record(const char *folder, tri_text *record);
/* The calls read attributes of /state. They return TRI_EFORMAT if the name is missing or has another type. */
bool                   tri_ckpt_has_value(const tri_ckpt_reader *r, const char *name);
TRI_CHECKED tri_status tri_ckpt_get_i64(tri_ckpt_reader *r, const char *name, int64_t *value);
TRI_CHECKED tri_status tri_ckpt_get_f64(tri_ckpt_reader *r, const char *name, double *value);
TRI_CHECKED tri_status tri_ckpt_get_text(tri_ckpt_reader *r, const char *name, tri_text *text); /* appended */
/* Appends the name of attribute i of /state, in the order of names. *kind is 'i' for i64, 'f' for f64, 't'
 * for text. i < tri_ckpt_value_count. */
int                    tri_ckpt_value_count(const tri_ckpt_reader *r);
TRI_CHECKED tri_status tri_ckpt_value_at(tri_ckpt_reader *r, int i, tri_text *name, char *kind);
/* The calls list side files and read one. Its hash is checked again and a NUL is put behind its bytes. Free
 * *bytes with tri_host_free. */
int         tri_ckpt_file_count(const tri_ckpt_reader *r);
const char *tri_ckpt_file_at(const tri_ckpt_reader *r, int i);
bool        tri_ckpt_has_file(const tri_ckpt_reader *r, const char *name);
/* Not collective. Tells whether the group, such as "/critic/model", has a tensor. */
bool                   tri_ckpt_has_group(const tri_ckpt_reader *r, const char *group);
TRI_CHECKED tri_status tri_ckpt_get_file(tri_ckpt_reader *r, const char *name, char **bytes, size_t *n);

/* Collective over world. Tests whether all ranks can write `bytes` bytes each into one HDF5 file and read
 * them back. The file is made anew at path and stays. Rank 0 removes it afterwards. Returns this rank's
 * seconds from open to close. *write_s includes the flush to the disk. TRI_EFILE is the same on every rank
 * and has HDF5's reason. */
TRI_CHECKED tri_status tri_ckpt_trial(tri_comm *world, const char *path, int64_t bytes, double *write_s,
                                      double *read_s);

#endif
