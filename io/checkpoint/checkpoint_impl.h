/* checkpoint_impl.h - declares the shared types and functions of the checkpoint_*.c files. Private to its
 * room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHECKPOINT_IMPL_H
#define TRI_CHECKPOINT_IMPL_H

#include <hdf5.h>
#include <sys/types.h>

#include "checkpoint.h"

enum {
  TRI_CKPT_VERSION = 1,
  TRI_CKPT_FILE_NAME_BYTES = 64,
  TRI_CKPT_TRIAL_STEP = 99999999, /* chosen as long as any name; no run takes so many steps */
  TRI_CKPT_FILE_BYTES = 1 << 28, /* largest side file, chosen as ten times the largest known tokenizer.json */
  TRI_CKPT_ALIGN_BYTES = 1 << 16, /* chosen: at most 6 % of a tensor of 1 MiB is lost */
  TRI_CKPT_ALIGN_FROM_BYTES = 1 << 20,
  TRI_CKPT_SLAB_BYTES = 1 << 24 /* most bytes of one hash; chosen, 6000 hashes for 8 G parameters in f32 */
};

/* One tensor with its place in state.h5. */
typedef struct tri_ckpt_entry {
  tri_ckpt_tensor t; /* owns group and name */
  int64_t         count, bytes, offset_bytes;
} tri_ckpt_entry;

typedef struct tri_ckpt_file {
  char     name[TRI_CKPT_FILE_NAME_BYTES];
  int64_t  bytes;
  uint64_t hash;
} tri_ckpt_file;

/* The contents of MANIFEST.json. Zero-initialise it. tri_ckpt_manifest_free leaves it zeroed. */
typedef struct tri_ckpt_manifest {
  int64_t         step, state_bytes;
  uint64_t        metadata_hash; /* covers all bytes of state.h5 outside the tensors */
  char            program[64];
  tri_text        record; /* see tri_ckpt_put_record; one line of JSON, or empty */
  int             n_file, n_entry;
  int64_t         file_space, entry_space; /* allocated elements */
  tri_ckpt_file  *file;                    /* [n_file] */
  tri_ckpt_entry *entry;                   /* [n_entry] in the order of create's list */
} tri_ckpt_manifest;

/* The hash of elements [begin, begin + count) of one tensor, a row of /integrity/slabs. */
typedef struct tri_ckpt_slab {
  int64_t  tensor, begin, count;
  uint64_t hash;
} tri_ckpt_slab;

/* checkpoint_stream.c. Not collective, all that follow. A thread writes ranges of state.h5 and makes them
 * durable. It bypasses the page cache if the file system allows it, and uses neither MPI nor HDF5. Every
 * range has one slab. If the thread fails, the next take() or wait() returns its error. */
typedef struct tri_ckpt_stream tri_ckpt_stream;

/* path is state.h5, already in its final length. m and folder are borrowed, and m's entries have their
 * offsets. rank is for messages. */
TRI_CHECKED tri_status tri_ckpt_stream_open(const char *path, const tri_ckpt_manifest *m, const char *folder,
                                            int rank, tri_ckpt_stream **out);
/* Call it before the first take(). All ranges are then kept in `space` (borrowed) until start(). The thread
 * started there yields the cores to other threads. Without lend() the thread starts by itself and keeps a few
 * ranges at a time. */
void tri_ckpt_stream_lend(tri_ckpt_stream *s, void *space, size_t bytes);
/* take() returns memory for elements [begin, begin + count) of a tensor, at most TRI_CKPT_PIECE_BYTES, and
 * waits until some is free. give() hands the filled memory to the thread. */
TRI_CHECKED tri_status tri_ckpt_stream_take(tri_ckpt_stream *s, int tensor, int64_t begin, int64_t count,
                                            void **host);
TRI_CHECKED tri_status tri_ckpt_stream_give(tri_ckpt_stream *s);
TRI_CHECKED tri_status tri_ckpt_stream_start(tri_ckpt_stream *s);
/* Tells whether wait() would return at once. */
bool tri_ckpt_stream_is_done(tri_ckpt_stream *s);
/* Waits until all given ranges are on the disk. The caller helps to write them. No more ranges are
 * accepted. */
TRI_CHECKED tri_status tri_ckpt_stream_wait(tri_ckpt_stream *s);
int64_t                tri_ckpt_stream_count(const tri_ckpt_stream *s); /* given ranges */
/* After wait(), these return the slabs, [count], and the seconds from the start of the thread to the end of
 * writing. */
void   tri_ckpt_stream_slabs(const tri_ckpt_stream *s, tri_ckpt_slab *out);
double tri_ckpt_stream_lasted_s(const tri_ckpt_stream *s);
/* Waits only for the range in progress. Accepts NULL, leaves NULL. */
void tri_ckpt_stream_close(tri_ckpt_stream **s);

struct tri_ckpt_reader {
  char              folder[TRI_CKPT_PATH_BYTES], path[TRI_CKPT_PATH_BYTES]; /* path names state.h5 */
  tri_ckpt_manifest m;
  tri_ckpt_entry  **order; /* [m.n_entry] sorted by group and name; points into m.entry */
  hid_t             file, state;
};

/* checkpoint_path.c. Not collective, except agree and share. */

/* Collective over world. Returns the first error of all ranks, or `mine` if world is NULL. */
TRI_CHECKED tri_status tri_ckpt_agree(tri_comm *world, tri_status mine);
/* Collective over world. Sends rank 0's bytes and their number to every rank. Does nothing if world is NULL.
 * On other ranks *bytes must be NULL before. Afterwards it holds the bytes with a NUL behind them. Free it
 * with tri_host_free. */
TRI_CHECKED tri_status tri_ckpt_share(tri_comm *world, char **bytes, size_t *n);
TRI_CHECKED tri_status tri_ckpt_path(char out[TRI_CKPT_PATH_BYTES], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
TRI_CHECKED tri_status tri_ckpt_sync(const char *path); /* fsync of a file or folder */

/* checkpoint_manifest.c. Not collective, all that follow. */

/* Appends a copy of *t. Returns `bad` if *t cannot be a tensor of a checkpoint. */
TRI_CHECKED tri_status tri_ckpt_manifest_add(tri_ckpt_manifest *m, const char *where, tri_status bad,
                                             const tri_ckpt_tensor *t);
TRI_CHECKED tri_status tri_ckpt_manifest_add_file(tri_ckpt_manifest *m, const char *name, int64_t bytes,
                                                  uint64_t hash);
TRI_CHECKED tri_status tri_ckpt_manifest_write(const tri_ckpt_manifest *m, const char *folder);
/* Reads the bytes of MANIFEST.json in the folder `at`. With AT_FDCWD, `folder` is its path, otherwise
 * `folder` is only for messages. Free *bytes with tri_host_free. */
TRI_CHECKED tri_status tri_ckpt_manifest_read(int at, const char *folder, char **bytes, size_t *n);
TRI_CHECKED tri_status tri_ckpt_manifest_parse(const char *folder, const char *bytes, size_t n,
                                               tri_ckpt_manifest *out);
/* Checks that state.h5 and the side files exist and have the right lengths. at and folder are as in
 * tri_ckpt_manifest_read. */
TRI_CHECKED tri_status tri_ckpt_manifest_check_sizes(const tri_ckpt_manifest *m, int at, const char *folder);
void                   tri_ckpt_manifest_free(tri_ckpt_manifest *m);
/* Computes the hash of state.h5 without its tensors. Returns TRI_EFORMAT if tensors overlap, or if more bytes
 * lie beside them than HDF5 needs for them. */
TRI_CHECKED tri_status tri_ckpt_metadata_hash(const tri_ckpt_manifest *m, const char *folder, uint64_t *hash);
/* Reads n bytes at an offset of an open file. A short file is TRI_EFORMAT. `path` is for the message. */
TRI_CHECKED tri_status tri_ckpt_read_at(int fd, const char *path, void *buf, size_t n, int64_t offset_bytes);

/* checkpoint_h5.c. Not collective, all that follow. Only a change of an HDF5 object in a parallel file is
 * collective over the ranks of the file. */

void        tri_ckpt_h5_quiet(void);  /* turns off HDF5's own error output */
const char *tri_ckpt_h5_reason(void); /* innermost error of the last failed call; valid until the next */
/* Returns the type of dtype in file and memory. Close it with H5Tclose. Negative on failure. */
hid_t tri_ckpt_h5_type(tri_dtype dtype);
hid_t tri_ckpt_h5_slab_type(void);
/* Selects elements [begin, begin + count) of flattened t in its data space. */
TRI_CHECKED tri_status tri_ckpt_h5_select(hid_t space, const tri_ckpt_tensor *t, int64_t begin,
                                          int64_t count);
/* Returns the data space of t's shape. Close it with H5Sclose. Negative on failure. */
hid_t tri_ckpt_h5_space(const tri_ckpt_tensor *t);
/* Opens a group. Makes the group and its parents if they are missing. Close *out with H5Gclose. `file_path`
 * is for the message. */
TRI_CHECKED tri_status tri_ckpt_h5_group(hid_t file, const char *file_path, const char *path, hid_t *out);
/* Checks that every part of `object`, a path in the file, is a hard link to an object of this same file.
 * Other links could lead to any file on the reader's machine, and trireme never writes them. Returns
 * TRI_EFORMAT otherwise, also for a missing part. */
TRI_CHECKED tri_status tri_ckpt_h5_check_links(hid_t file, const char *file_path, const char *object);
/* Tells whether the bytes of the data set lie in one piece of its own file. */
bool tri_ckpt_h5_is_plain(hid_t set);
/* Opens the data set of entry e and checks its shape, type and offset against the manifest. Close *set with
 * H5Dclose. On failure *set is -1 and the status TRI_EFORMAT. */
TRI_CHECKED tri_status tri_ckpt_h5_open(hid_t file, const char *file_path, const tri_ckpt_entry *e,
                                        hid_t *set);
/* Returns the property list for new data sets. They are contiguous, allocated at once and never filled, so
 * their bytes are exactly those written by the ranks. Close it with H5Pclose. Negative on failure. */
hid_t tri_ckpt_h5_set_list(void);
/* Writes a scalar attribute of this type. Text is stored with a fixed length. */
TRI_CHECKED tri_status tri_ckpt_h5_put(hid_t object, const char *path, const char *name, hid_t type,
                                       const void *value);
TRI_CHECKED tri_status tri_ckpt_h5_put_text(hid_t object, const char *path, const char *name,
                                            const char *text);

/* checkpoint_mpi.c. The functions are not collective, but prepare collective calls. */

/* Not collective. Sets a list so that files opened with it open through MPI, by all ranks of world
 * together. */
bool tri_ckpt_h5_by_mpi(hid_t list, tri_comm *world);
/* Not collective. Makes all ranks take part together in transfers of data, or else in changes of the file's
 * structure. */
bool tri_ckpt_h5_collective(hid_t list, bool transfer);
/* Not collective. Returns the path under which MPI opens this file. It differs from `path` if MPI-IO would
 * misread a part of `path` or has too short a buffer for it. Such a path goes through an open folder,
 * *folder. Keep this folder open as long as the file. Otherwise *folder is -1. */
TRI_CHECKED tri_status tri_ckpt_mpi_path(const char *path, int *folder, char out[TRI_CKPT_PATH_BYTES]);

/* checkpoint_verify.c. */

/* Collective over world. Gathers the slabs of all ranks, sorted, the same on each. Checks that every element
 * is in exactly one slab. folder is for messages. Free *out, [*n], with tri_host_free. */
TRI_CHECKED tri_status tri_ckpt_slabs_gather(const tri_ckpt_stream *stream, tri_comm *world,
                                             const tri_ckpt_manifest *m, const char *folder,
                                             tri_ckpt_slab **out, int64_t *n);
/* Collective over the file's ranks. Makes the data set of n slabs without writing it, and returns its offset
 * in the file. */
TRI_CHECKED tri_status tri_ckpt_slabs_place(hid_t file, const char *path, int64_t n, int64_t *offset_bytes);
/* Not collective. Rank 0 writes the slabs at this offset. */
TRI_CHECKED tri_status tri_ckpt_slabs_write(const char *path, int64_t offset_bytes, const tri_ckpt_slab *slab,
                                            int64_t n);

/* Collective over world (NULL for this process alone), with the work divided among its ranks. Checks every
 * data set and every hash of its bytes. The message names the first damaged data set. */
TRI_CHECKED tri_status tri_ckpt_check_slabs(tri_ckpt_reader *r, tri_comm *world);

/* checkpoint_space.c. Not collective, all that follow. */

/* The disk space of a checkpoint while it is written. rest_bytes has everything but the tensors, with the
 * unused ends of HDF5's blocks. */
typedef struct tri_ckpt_space {
  int64_t tensor_bytes, rest_bytes;
  int64_t block_bytes; /* HDF5 allocates metadata in blocks of this size */
} tri_ckpt_space;

/* side_bytes is the total size of the side files. Slabs are counted in pieces of
 * TRI_CKPT_PIECE_BYTES. */
tri_ckpt_space tri_ckpt_space_reckon(const tri_ckpt_manifest *m, int n_rank, int64_t side_bytes);
/* Rank 0 calls it before anything is written. Makes dir and in it a folder with an empty state.h5, if enough
 * space is free. Only this user can write in the folder until the end, when it gets *mode. If the file system
 * cannot reserve space, a file `room` in the folder holds rest_bytes until give(). The reason is HDF5: all
 * ranks write its own structures together, and a rank without space would leave the others waiting. */
TRI_CHECKED tri_status tri_ckpt_space_prepare(const char *dir, const char *folder, const tri_ckpt_space *need,
                                              mode_t *mode);
TRI_CHECKED tri_status tri_ckpt_space_give(const char *folder);
/* Every rank checks its access to the folder and its limit of file sizes. */
TRI_CHECKED tri_status tri_ckpt_space_check(const char *folder, int rank, int64_t need_bytes);
/* Rank 0 makes the file at least `bytes` long. Reserves blocks if the file system can, so that later writes
 * do not run out of space. */
TRI_CHECKED tri_status tri_ckpt_space_take(const char *path, int64_t bytes);

/* checkpoint_steps.c. Not collective, all that follow. */

/* The states of a step folder:
 *   step-N.tmp     is being written (step-N.tmp-R after R requeues of the job)
 *   step-N         is a checkpoint
 *   step-N.trash   is being deleted
 *   step-N.old     was step-N, while another step-N takes its place */
typedef enum { TRI_CKPT_WHOLE, TRI_CKPT_TMP, TRI_CKPT_TRASH, TRI_CKPT_OLD, TRI_CKPT_OTHER } tri_ckpt_kind;
typedef struct tri_ckpt_steps {
  int64_t *step; /* [n] */
  int64_t  space;
  int      n;
} tri_ckpt_steps;

/* Writes step-00000040, step-00000040.tmp and so on. */
void tri_ckpt_step_name(char out[TRI_CKPT_FILE_NAME_BYTES], int64_t step, tri_ckpt_kind kind);
TRI_CHECKED tri_status tri_ckpt_step_path(char out[TRI_CKPT_PATH_BYTES], const char *dir, int64_t step,
                                          tri_ckpt_kind kind);
/* Sets *step unless it returns TRI_CKPT_OTHER. */
tri_ckpt_kind tri_ckpt_parse_name(const char *name, int64_t *step);
/* Returns the step named by LATEST in the folder `at`, or -1 if LATEST is missing. With AT_FDCWD, dir is the
 * folder's path, otherwise dir is only for messages. If LATEST is no link to a step folder, the status is
 * TRI_EFORMAT. */
TRI_CHECKED tri_status tri_ckpt_latest(int at, const char *dir, int64_t *step);
/* Does the same for BEST. Returns -1 also if BEST is no link to a step folder. */
int64_t tri_ckpt_named_best(int at, const char *dir);
/* Lists the steps of all entries of this kind, newest first. dir is a path relative to the open folder `at`.
 * Free l->step with tri_host_free. */
TRI_CHECKED tri_status tri_ckpt_list(int at, const char *dir, tri_ckpt_kind kind, tri_ckpt_steps *l);
/* Sorts newest first, with abandoned steps (above LATEST) last. */
void tri_ckpt_order(tri_ckpt_steps *l, int64_t latest);

/* checkpoint_write.c. Collective over world. Works as tri_ckpt_create for one tensor, but commit removes the
 * checkpoint after writing it. Also checks the disk and the file size limit for reserve_bytes more. */
TRI_CHECKED tri_status tri_ckpt_create_trial(const char *dir, int64_t reserve_bytes, tri_comm *world,
                                             const tri_ckpt_tensor *tensor, tri_ckpt_writer **out);
/* checkpoint_publish.c. Not collective. Only rank 0 works. Takes the steps of publish and undoes them. */
TRI_CHECKED tri_status tri_ckpt_rehearse_publish(const char *dir);

/* checkpoint_dir.c. Not collective, all that follow. */

/* Removes a folder of plain files of this user, the manifest first. A link is removed and not followed. A
 * missing folder is TRI_OK. */
TRI_CHECKED tri_status tri_ckpt_remove(const char *folder);
/* Renames dir/step-%08d.tmp to dir/step-%08d and makes LATEST name it. Does both or neither. */
TRI_CHECKED tri_status tri_ckpt_publish(const char *dir, int64_t step);
/* Call it before step next_step is published. Removes the abandoned steps between LATEST and next_step, and
 * logs each. Links stay. A failed removal is a warning. Nothing is removed unless LATEST names an existing
 * step. */
TRI_CHECKED tri_status tri_ckpt_discard_abandoned(const char *dir, int64_t next_step);

#endif
