/* commands.h - one command per file. The table in main.c lists them all. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_COMMANDS_H
#define TRI_COMMANDS_H

#include "tools/flags/flags.h"

extern const tri_command tri_command_train, tri_command_generate, tri_command_score, tri_command_eval,
    tri_command_reward, tri_command_tokenize, tri_command_inspect, tri_command_export, tri_command_init,
    tri_command_plan, tri_command_doctor, tri_command_bench, tri_command_watch, tri_command_report,
    tri_command_show, tri_command_metrics;

#endif
