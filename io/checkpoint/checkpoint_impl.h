/* checkpoint_impl.h - what the checkpoint_*.c files share. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHECKPOINT_IMPL_H
#define TRI_CHECKPOINT_IMPL_H

#include <hdf5.h>
#include <sys/types.h>

#include "checkpoint.h"

enum {
  TRI_CKPT_VERSION = 1,
  TRI_CKPT_FILE_NAME_BYTES = 64,
  TRI_CKPT_TRIAL_STEP = 99999999, /* chosen: a name as long as any; no run takes so many */
  TRI_CKPT_FILE_BYTES =
      1 << 28, /* of a side file at most; chosen: ten times the largest tokenizer.json known */
  TRI_CKPT_ALIGN_BYTES = 1 << 16, /* chosen: at most 6 % of a tensor of 1 MiB is lost */
  TRI_CKPT_ALIGN_FROM_BYTES = 1 << 20,
  TRI_CKPT_SLAB_BYTES = 1 << 24 /* of one hash at most; chosen: 6000 hashes for 8 G parameters in f32 */
};

/* One tensor with its place in state.h5. */
typedef struct tri_ckpt_entry {
  tri_ckpt_tensor t; /* group and name: owned */
  int64_t         count, bytes, offset_bytes;
} tri_ckpt_entry;

typedef struct tri_ckpt_file {
  char     name[TRI_CKPT_FILE_NAME_BYTES];
  int64_t  bytes;
  uint64_t hash;
} tri_ckpt_file;

/* What MANIFEST.json says. Zero-initialise; tri_ckpt_manifest_free leaves it zeroed. */
typedef struct tri_ckpt_manifest {
  int64_t         step, state_bytes;
  uint64_t        metadata_hash; /* of all bytes of state.h5 that belong to no tensor */
  char            program[64];
  tri_text        record; /* what computed the run, a JSON object on one line; empty: not known */
  int             n_file, n_entry;
  int64_t         file_space, entry_space; /* elements there is space for */
  tri_ckpt_file  *file;                    /* [n_file] */
  tri_ckpt_entry *entry;                   /* [n_entry] in the order of create's list */
} tri_ckpt_manifest;

/* The hash of elements [begin, begin + count) of one tensor: a row of /integrity/slabs. */
typedef struct tri_ckpt_slab {
  int64_t  tensor, begin, count;
  uint64_t hash;
} tri_ckpt_slab;

/* checkpoint_stream.c. Not collective, all that follow. A thread writes ranges of state.h5, past the page
 * cache where the file system lets it, and makes them durable; it knows neither MPI nor HDF5. Every range has
 * one slab. An error of the thread is that of the next take() or of wait(). */
typedef struct tri_ckpt_stream tri_ckpt_stream;

/* path: of state.h5, which is as long as it will be; m, whose entries have their offsets, and folder are
 * borrowed, rank is for messages. */
TRI_CHECKED tri_status tri_ckpt_stream_open(const char *path, const tri_ckpt_manifest *m, const char *folder,
                                            int rank, tri_ckpt_stream **out);
/* Before the first take(): all ranges are kept in `space` (borrowed) until start(), whose thread then
 * takes of the cores what others leave. Else the thread starts by itself, and a few ranges are kept at
 * once. */
void tri_ckpt_stream_lend(tri_ckpt_stream *s, void *space, size_t bytes);
/* Space for elements [begin, begin + count) of a tensor, TRI_CKPT_PIECE_BYTES at most; waits until there is
 * some. give(): they are there. */
TRI_CHECKED tri_status tri_ckpt_stream_take(tri_ckpt_stream *s, int tensor, int64_t begin, int64_t count,
                                            void **host);
TRI_CHECKED tri_status tri_ckpt_stream_give(tri_ckpt_stream *s);
TRI_CHECKED tri_status tri_ckpt_stream_start(tri_ckpt_stream *s);
/* Would wait() not wait? */
bool tri_ckpt_stream_is_done(tri_ckpt_stream *s);
/* Until all that was given is on the disk, of which the caller writes its part; nothing more is taken. */
TRI_CHECKED tri_status tri_ckpt_stream_wait(tri_ckpt_stream *s);
int64_t                tri_ckpt_stream_count(const tri_ckpt_stream *s); /* of ranges given */
/* After wait(): their slabs, [count]; and how long the thread was there. */
void   tri_ckpt_stream_slabs(const tri_ckpt_stream *s, tri_ckpt_slab *out);
double tri_ckpt_stream_lasted_s(const tri_ckpt_stream *s);
/* Waits for no more than the range that is being written. Accepts NULL, leaves NULL. */
void tri_ckpt_stream_close(tri_ckpt_stream **s);

struct tri_ckpt_reader {
  char              folder[TRI_CKPT_PATH_BYTES], path[TRI_CKPT_PATH_BYTES]; /* path: of state.h5 */
  tri_ckpt_manifest m;
  tri_ckpt_entry  **order; /* [m.n_entry] by group and name; point into m.entry */
  hid_t             file, state;
};

/* checkpoint_path.c. Not collective, but for agree and share. */

/* Collective over world; the status itself where world is NULL. */
TRI_CHECKED tri_status tri_ckpt_agree(tri_comm *world, tri_status mine);
/* Collective over world; nothing where that is NULL. Rank 0's bytes and their number on every rank; on others
 * *bytes, NULL before, is theirs by tri_host_free, with a NUL behind. */
TRI_CHECKED tri_status tri_ckpt_share(tri_comm *world, char **bytes, size_t *n);
TRI_CHECKED tri_status tri_ckpt_path(char out[TRI_CKPT_PATH_BYTES], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
TRI_CHECKED tri_status tri_ckpt_sync(const char *path); /* file or folder to the disk */

/* checkpoint_manifest.c. Not collective, all that follow. */

/* Appends a copy of *t; `bad` is the status when it cannot be a tensor of a checkpoint. */
TRI_CHECKED tri_status tri_ckpt_manifest_add(tri_ckpt_manifest *m, const char *where, tri_status bad,
                                             const tri_ckpt_tensor *t);
TRI_CHECKED tri_status tri_ckpt_manifest_add_file(tri_ckpt_manifest *m, const char *name, int64_t bytes,
                                                  uint64_t hash);
TRI_CHECKED tri_status tri_ckpt_manifest_write(const tri_ckpt_manifest *m, const char *folder);
/* The bytes of MANIFEST.json in the folder `at`, AT_FDCWD where `folder` is its path; else that is for
 * messages. *bytes by tri_host_free. */
TRI_CHECKED tri_status tri_ckpt_manifest_read(int at, const char *folder, char **bytes, size_t *n);
TRI_CHECKED tri_status tri_ckpt_manifest_parse(const char *folder, const char *bytes, size_t n,
                                               tri_ckpt_manifest *out);
/* Are state.h5 and the side files there, and as long as they must be? at, folder: as
 * tri_ckpt_manifest_read. */
TRI_CHECKED tri_status tri_ckpt_manifest_check_sizes(const tri_ckpt_manifest *m, int at, const char *folder);
void                   tri_ckpt_manifest_free(tri_ckpt_manifest *m);
/* The hash of state.h5 without its tensors. TRI_EFORMAT: tensors overlap, or more lies beside them than HDF5
 * needs for them. */
TRI_CHECKED tri_status tri_ckpt_metadata_hash(const tri_ckpt_manifest *m, const char *folder, uint64_t *hash);
/* n bytes at offset of an open file; a short file is TRI_EFORMAT. `path` is for the message. */
TRI_CHECKED tri_status tri_ckpt_read_at(int fd, const char *path, void *buf, size_t n, int64_t offset_bytes);

/* checkpoint_h5.c. Not collective, all that follow; what they do to an HDF5 object is as collective as that
 * object. */

void        tri_ckpt_h5_quiet(void);  /* HDF5's own printing of errors: off */
const char *tri_ckpt_h5_reason(void); /* of the last call that failed, innermost; valid until the next */
/* The type of dtype in file and memory alike; by H5Tclose. Negative on failure. */
hid_t tri_ckpt_h5_type(tri_dtype dtype);
hid_t tri_ckpt_h5_slab_type(void);
/* Selects elements [begin, begin + count) of flattened t in its data space. */
TRI_CHECKED tri_status tri_ckpt_h5_select(hid_t space, const tri_ckpt_tensor *t, int64_t begin,
                                          int64_t count);
/* The data space of t's shape; by H5Sclose. Negative on failure. */
hid_t tri_ckpt_h5_space(const tri_ckpt_tensor *t);
/* A group and those above it, made where they are missing; *out by H5Gclose. `file_path` is for the
 * message. */
TRI_CHECKED tri_status tri_ckpt_h5_group(hid_t file, const char *file_path, const char *path, hid_t *out);
/* Is every part of `object`, a path in the file, a plain link to an object of this same file? Others could
 * lead to any file of the reader's; no trireme writes them. TRI_EFORMAT, also where there is none. */
TRI_CHECKED tri_status tri_ckpt_h5_check_links(hid_t file, const char *file_path, const char *object);
/* Does the data set have its bytes in one piece of its own file? */
bool tri_ckpt_h5_is_plain(hid_t set);
/* Opens entry e's data set; is it of the manifest's shape, type and place? *set by H5Dclose, -1 on failure,
 * which is TRI_EFORMAT. */
TRI_CHECKED tri_status tri_ckpt_h5_open(hid_t file, const char *file_path, const tri_ckpt_entry *e,
                                        hid_t *set);
/* How data sets are made: contiguous, placed at once, never filled, so that their bytes are exactly what the
 * ranks write. By H5Pclose; negative on failure. */
hid_t tri_ckpt_h5_set_list(void);
/* A scalar attribute of this type; text is stored with a fixed length. */
TRI_CHECKED tri_status tri_ckpt_h5_put(hid_t object, const char *path, const char *name, hid_t type,
                                       const void *value);
TRI_CHECKED tri_status tri_ckpt_h5_put_text(hid_t object, const char *path, const char *name,
                                            const char *text);

/* checkpoint_mpi.c. Not collective, but for what they prepare. */

/* Not collective. Files that are opened with this list are opened by all ranks of world together, through
 * MPI. */
bool tri_ckpt_h5_by_mpi(hid_t list, tri_comm *world);
/* Not collective. Transfers, else the structure of such files, are written by all together. */
bool tri_ckpt_h5_collective(hid_t list, bool transfer);
/* Not collective. The path under which MPI opens this file: another where MPI-IO would take a part of it
 * for something else, or has no space for it. *folder: open as long as the file is, for that path goes
 * through it; else -1. */
TRI_CHECKED tri_status tri_ckpt_mpi_path(const char *path, int *folder, char out[TRI_CKPT_PATH_BYTES]);

/* checkpoint_verify.c. */

/* Collective over world. The slabs of all ranks, sorted, the same on each: is every element in exactly one?
 * folder is for messages. *out [*n] by tri_host_free. */
TRI_CHECKED tri_status tri_ckpt_slabs_gather(const tri_ckpt_stream *stream, tri_comm *world,
                                             const tri_ckpt_manifest *m, const char *folder,
                                             tri_ckpt_slab **out, int64_t *n);
/* Collective over the file's ranks. The data set of n slabs, unwritten; its place in the file. */
TRI_CHECKED tri_status tri_ckpt_slabs_place(hid_t file, const char *path, int64_t n, int64_t *offset_bytes);
/* Not collective. Rank 0 puts them there. */
TRI_CHECKED tri_status tri_ckpt_slabs_write(const char *path, int64_t offset_bytes, const tri_ckpt_slab *slab,
                                            int64_t n);

/* Collective over world (NULL: this process alone), which shares the work. Every data
 * set, and every hash of its bytes; the message names the first that is damaged. */
TRI_CHECKED tri_status tri_ckpt_check_slabs(tri_ckpt_reader *r, tri_comm *world);

/* checkpoint_space.c. Not collective, all that follow. */

/* What a checkpoint takes on the disk, while it is written: its tensors, and the rest, with the ends of
 * HDF5's pieces. */
typedef struct tri_ckpt_space {
  int64_t tensor_bytes, rest_bytes;
  int64_t block_bytes; /* HDF5 takes space for metadata in pieces of this size */
} tri_ckpt_space;

/* side_bytes: of the side files together. Slabs are reckoned as tri_state_save makes them: pieces of 4
 * MiB. */
tri_ckpt_space tri_ckpt_space_reckon(const tri_ckpt_manifest *m, int n_rank, int64_t side_bytes);
/* Rank 0, before anything is written: makes dir and a folder in it with an empty state.h5, if that much is
 * free there. Only this user can write in the folder until it gets its *mode, which is for the end. Where the
 * file system cannot promise space, a file `room` in it holds rest_bytes until give(): HDF5's own structures
 * are written by all ranks together, and one rank that fails there would leave the others waiting. */
TRI_CHECKED tri_status tri_ckpt_space_prepare(const char *dir, const char *folder, const tri_ckpt_space *need,
                                              mode_t *mode);
TRI_CHECKED tri_status tri_ckpt_space_give(const char *folder);
/* Every rank: does it see that folder, and may it write a file of that size? */
TRI_CHECKED tri_status tri_ckpt_space_check(const char *folder, int rank, int64_t need_bytes);
/* Rank 0: the file is `bytes` long at least, and gets blocks for them where the file system can promise any,
 * so that writing them does not fail for want of space. */
TRI_CHECKED tri_status tri_ckpt_space_take(const char *path, int64_t bytes);

/* checkpoint_steps.c. Not collective, all that follow. */

/* A step folder's states: step-N.tmp (being written; step-N.tmp-R after R requeues of the job) -> step-N ->
 * step-N.trash (being deleted); step-N -> step-N.old while another step-N takes its place. */
typedef enum { TRI_CKPT_WHOLE, TRI_CKPT_TMP, TRI_CKPT_TRASH, TRI_CKPT_OLD, TRI_CKPT_OTHER } tri_ckpt_kind;
typedef struct tri_ckpt_steps {
  int64_t *step; /* [n] */
  int64_t  space;
  int      n;
} tri_ckpt_steps;

/* step-00000040, step-00000040.tmp and so on. */
void tri_ckpt_step_name(char out[TRI_CKPT_FILE_NAME_BYTES], int64_t step, tri_ckpt_kind kind);
TRI_CHECKED tri_status tri_ckpt_step_path(char out[TRI_CKPT_PATH_BYTES], const char *dir, int64_t step,
                                          tri_ckpt_kind kind);
/* *step is set unless TRI_CKPT_OTHER. */
tri_ckpt_kind tri_ckpt_parse_name(const char *name, int64_t *step);
/* The step that LATEST names in the folder `at`, AT_FDCWD where dir is its path; else that is for messages.
 * -1 without one. A LATEST that is no link to a step folder is TRI_EFORMAT. */
TRI_CHECKED tri_status tri_ckpt_latest(int at, const char *dir, int64_t *step);
/* The same of BEST; -1 also where that is no such link. */
int64_t tri_ckpt_named_best(int at, const char *dir);
/* Steps of the entries of this kind in the folder dir, a path from the open folder `at`, newest first.
 * l->step by tri_host_free. */
TRI_CHECKED tri_status tri_ckpt_list(int at, const char *dir, tri_ckpt_kind kind, tri_ckpt_steps *l);
/* Newest first, but steps above LATEST's after all others: they are of a run that was wound back. */
void tri_ckpt_order(tri_ckpt_steps *l, int64_t latest);

/* checkpoint_write.c. Collective over world. As tri_ckpt_create, of one tensor, for a checkpoint that commit
 * writes and removes. Of the disk, and of the limit of a file, reserve_bytes more are asked for. */
TRI_CHECKED tri_status tri_ckpt_create_trial(const char *dir, int64_t reserve_bytes, tri_comm *world,
                                             const tri_ckpt_tensor *tensor, tri_ckpt_writer **out);
/* checkpoint_rehearsal.c. Not collective; rank 0 works. What publish would do, without a trace. */
TRI_CHECKED tri_status tri_ckpt_rehearse_publish(const char *dir);

/* checkpoint_dir.c. Not collective, all that follow. */

/* A folder of plain files of this user's, the manifest first; a link is removed itself. TRI_OK when it is not
 * there. */
TRI_CHECKED tri_status tri_ckpt_remove(const char *folder);
/* dir/step-%08d.tmp becomes dir/step-%08d and LATEST names it; both or neither. */
TRI_CHECKED tri_status tri_ckpt_publish(const char *dir, int64_t step);
/* Before step next_step is published: removes the steps between it and the one LATEST names, as of a run that
 * was wound back, and says so, each with a line. Links stay, and what cannot be removed is a warning. Without
 * a LATEST that names a step that is there, nothing goes. */
TRI_CHECKED tri_status tri_ckpt_discard_abandoned(const char *dir, int64_t next_step);

#endif
