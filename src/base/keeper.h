/* keeper.h - a process between this one and a program: when either side ends, all processes that the program
 * started, however far removed, end too. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_KEEPER_H
#define TRI_KEEPER_H

/* The keeper is this executable, started again under this name: keeper.c takes over before main. Its
 * arguments are the number of the process that started it, the path of the program and the program's argv. It
 * holds the program's 0, 1 and 2 until that has started, and reports on TRI_KEEPER_REPORT, two records: first
 * when the program has started, then when it has ended. All signals are blocked in it; the program gets an
 * empty mask. */
#define TRI_KEEPER_NAME "trireme-keeper"
enum { TRI_KEEPER_REPORT = 3 };
typedef struct tri_keeper_record {
  int failed;  /* errno of exec; 0: it runs */
  int program; /* its number; it leads a process group */
  int status;  /* of its end, as waitpid has it */
} tri_keeper_record;
/* The signal that ends the keeper with all below it. It also gets it when the thread that started it ends. */
int tri_keeper_signal(void);

#endif
