/* keeper.h - a process between this one and a program. When either ends, it ends all processes started by the
 * program, however far removed. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_KEEPER_H
#define TRI_KEEPER_H

/* The keeper is this executable, started again under this name. keeper.c takes over before main. Its
 * arguments are the number of the process that started it, the path of the program and the program's argv. It
 * holds the program's files 0, 1 and 2 until the program has started. It writes two records to
 * TRI_KEEPER_REPORT, one when the program has started and one when it has ended. All signals are blocked in
 * the keeper. The program gets an empty mask. */
#define TRI_KEEPER_NAME "trireme-keeper"
enum { TRI_KEEPER_REPORT = 3 };
typedef struct tri_keeper_record {
  int failed;  /* errno of exec. 0: it runs */
  int program; /* process number. It leads a process group */
  int status;  /* exit status, as from waitpid */
} tri_keeper_record;
/* The signal that ends the keeper with all processes below it. The system also sends it when the thread that
 * started the keeper ends. */
int tri_keeper_signal(void);

#endif
