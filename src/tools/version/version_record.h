/* version_record.h - makes the record of a run's program and machines, for its checkpoints and its log. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_VERSION_RECORD_H
#define TRI_VERSION_RECORD_H

#include "comm/session.h"

/* Collective over world, after communicators have their memory. Appends the record (src/record/record.h) on
 * rank 0: version, commit, build, libraries, products, collectives, hosts, ranks, environment. It includes
 * variables with the prefixes TRI_, OMP_ and NCCL_, and masks possible secrets. */
TRI_CHECKED tri_status tri_version_record(const tri_session *se, tri_text *out);

#endif
