/* cudnn.h - the interface of tests to the emulated cuDNN (cudnn.cpp). The program finds that library by the
 * names of its functions, like libcudnn.so.9. Test code.
 *
 * It is a small interpreter of the backend API. It checks each descriptor when it is finalized. Required
 * attributes must be set with their types, dimensions must agree, a number means one tensor, and each tensor
 * is computed once, before it is read. It offers three engines. The first does not repeat its bits and the
 * second cannot do the work. It computes the graph in f64 by its operations, whatever they are. Rows behind a
 * sequence's end are NaN. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_EMULATE_CUDNN_H
#define TRI_TESTS_EMULATE_CUDNN_H

#ifdef __cplusplus
extern "C" {
#endif

/* Planted faults. The library then receives something other than the caller said. */
typedef enum {
  EMU_CUDNN_TRUE,
  EMU_CUDNN_SCALE,   /* numbers of value `scale` are 1 */
  EMU_CUDNN_STATS,   /* stats are laid out as [H,T] of each sequence */
  EMU_CUDNN_LOG2,    /* stats are powers of 2 */
  EMU_CUDNN_CAUSAL,  /* keys behind their row are not masked */
  EMU_CUDNN_WINDOW,  /* keys before their window are not masked */
  EMU_CUDNN_STRIDES, /* keys are not transposed, their last two strides are swapped */
  EMU_CUDNN_LENGTHS, /* products use whole rows, without lengths */
  EMU_CUDNN_BEHIND,  /* no lengths, and elements behind a sequence's end are read */
  EMU_CUDNN_OVER,    /* a row behind a sequence's end is written */
  EMU_CUDNN_SKIPS,   /* the second row of a sequence is not written */
  EMU_CUDNN_CHANGES, /* the engine's bits change with each call */
  EMU_CUDNN_NOT_0,   /* dq is 0.01 too large everywhere */
  EMU_CUDNN_UNSET,   /* a tensor's strides are never set */
  EMU_CUDNN_TWICE,   /* a number means two tensors */
  EMU_CUDNN_UNMADE,  /* an operation is left out of the graph */
  EMU_CUDNN_ENGINES, /* no engine repeats its bits */
  EMU_CUDNN_LESS,    /* engines want twice the workspace */
  EMU_CUDNN_POINTER, /* a tensor's address is not given */
  EMU_CUDNN_FAILS,   /* a call ends with status 3000 */
  EMU_CUDNN_BREAKS   /* and every later wait for the device fails too */
} emu_cudnn_fault;
void emu_cudnn_plant(emu_cudnn_fault f);
/* Returns the calls of cudnnBackendExecute so far. */
int emu_cudnn_calls(void);

#ifdef __cplusplus
}
#endif
#endif
