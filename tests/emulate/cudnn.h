/* cudnn.h - what a test tells the emulated cuDNN (cudnn.cpp), which is found by the names of its functions as
 * libcudnn.so.9 is. Test code.
 *
 * A small interpreter of the backend API: it checks each descriptor when it is finalized (what must be set
 * is, with its type; dimensions agree; a number means one tensor; each tensor is made once, before it is
 * read), offers three engines, of which the first does not repeat its bits and the second cannot, and
 * computes the graph in f64 by its operations, whatever they are. Rows behind a sequence's end are NaN. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_EMULATE_CUDNN_H
#define TRI_TESTS_EMULATE_CUDNN_H

#ifdef __cplusplus
extern "C" {
#endif

/* What is planted: the library hears something else than it was told. */
typedef enum {
  EMU_CUDNN_TRUE,
  EMU_CUDNN_SCALE,   /* numbers of value `scale` are 1 */
  EMU_CUDNN_STATS,   /* stats lie as [H,T] of each sequence */
  EMU_CUDNN_LOG2,    /* and are powers of 2 */
  EMU_CUDNN_CAUSAL,  /* no key behind its row is left out */
  EMU_CUDNN_WINDOW,  /* nor any before its window */
  EMU_CUDNN_STRIDES, /* keys are not transposed: their last two strides change places */
  EMU_CUDNN_LENGTHS, /* products are of whole rows: no lengths */
  EMU_CUDNN_BEHIND,  /* nor lengths; and what lies behind a sequence's end is read */
  EMU_CUDNN_OVER,    /* a row behind a sequence's end is written */
  EMU_CUDNN_SKIPS,   /* the second row of a sequence is not */
  EMU_CUDNN_CHANGES, /* the engine's bits are others with each call */
  EMU_CUDNN_NOT_0,   /* dq is 0.01 too large everywhere */
  EMU_CUDNN_UNSET,   /* a tensor's strides are never set */
  EMU_CUDNN_TWICE,   /* a number means two tensors */
  EMU_CUDNN_UNMADE,  /* an operation is left out of the graph */
  EMU_CUDNN_ENGINES, /* no engine repeats its bits */
  EMU_CUDNN_LESS,    /* engines want twice the workspace */
  EMU_CUDNN_POINTER, /* a tensor's place is not told */
  EMU_CUDNN_FAILS,   /* a call ends with status 3000 */
  EMU_CUDNN_BREAKS   /* and so does all that waits for the device from then on */
} emu_cudnn_fault;
void emu_cudnn_plant(emu_cudnn_fault f);
/* Calls of cudnnBackendExecute so far. */
int emu_cudnn_calls(void);

#ifdef __cplusplus
}
#endif
#endif
