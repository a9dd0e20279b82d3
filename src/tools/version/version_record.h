/* version_record.h - what computes a run, for its checkpoints and its log. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_VERSION_RECORD_H
#define TRI_VERSION_RECORD_H

#include "comm/session.h"

/* Collective over world, once communicators have their memory. Appends the record (src/record/record.h) on
 * rank 0: version, commit, build, libraries, products, collectives, hosts, ranks, environment. Of variables
 * it has those that begin with TRI_, OMP_ or NCCL_; what may be a secret is masked. */
TRI_CHECKED tri_status tri_version_record(const tri_session *se, tri_text *out);

#endif
