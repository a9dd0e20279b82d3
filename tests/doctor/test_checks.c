/* test_checks.c - tests the checks of facts, and the report. Judge: exact findings on facts of four ranks on
 * two nodes with one error each. The same facts without the error give no finding. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/doctor/checks.h"
#include "tools/doctor/doctor_report.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "refusal_case.h"

enum { TASKS = 4 };

/* Two ranks on each of n1 and n2, with a GPU and two of four cores each. Nothing is wrong. */
typedef struct launch {
  tri_launch      l;
  tri_launch_name name[2];
  int             node_tasks[2];
  tri_facts       f[TASKS];
  tri_facts_clock clock[TASKS];
  tri_reach       reach[4];
  tri_case        c;
  tri_findings    found;
} launch;

static launch *begin(void) {
  launch *x = calloc(1, sizeof *x);

  assert_non_null(x);
  strcpy(x->name[0], "n1"), strcpy(x->name[1], "n2");
  x->node_tasks[0] = x->node_tasks[1] = 2;
  x->l =
      (tri_launch){.tasks = TASKS, .kind = "srun", .n_node = 2, .node = x->name, .node_tasks = x->node_tasks};
  for (int t = 0; t < TASKS; t++) {
    tri_facts *f = &x->f[t];
    f->seat = (tri_facts_seat){.task = t, .tasks = TASKS, .local = t % 2, .locals = 2, .slurm_task = t};
    strcpy(f->seat.host, x->name[t / 2]);
    snprintf(f->gpu.uuid, sizeof f->gpu.uuid, "GPU-%d", t);
    strcpy(f->gpu.model, "H100");
    f->cores = (tri_facts_cores){.online = 4, .mine = 2, .allotted = 4, .mask = {3u << t % 2 * 2}};
    f->limits = (tri_facts_limits){TRI_FACTS_NO_LIMIT, 4096, (int64_t)1 << 34, (int64_t)1 << 34};
    f->n_net = 2;
    f->net[0] = (tri_facts_net){"lo", "127.0.0.1", 8, 1, TRI_FACTS_UNKNOWN};
    f->net[1] = (tri_facts_net){"ib0", "10.0.0.1", 24, 0, 100000};
    f->net[1].address[7] = (char)('1' + t / 2);
    strcpy(f->version[TRI_VERSION_MPI], "Open MPI v4.1.4");
  }
  x->c = (tri_case){.launch = &x->l,
                    .facts = x->f,
                    .tasks = TASKS,
                    .device = "auto",
                    .gpu_build = true,
                    .waited_s = 30,
                    .clock = x->clock,
                    .reach = x->reach};
  return x;
}

/* All checks give n findings. The first has this check, level and place. Its parts tell these facts. */
static void finds(launch *x, int n, const char *check, tri_level level, const char *where, const char *what,
                  const char *cure) {
  assert_int_equal(tri_case_number(&x->c, x->f, 0), TRI_OK);
  assert_int_equal(tri_check_all(&x->c, &x->found), TRI_OK);
  if (x->found.n != n)
    fail_msg("%d findings, not %d; first: %s", (int)x->found.n, n, x->found.n ? x->found.item[0].what : "");
  if (n) {
    const tri_finding *f = &x->found.item[0];
    assert_string_equal(f->check, check);
    assert_int_equal(f->level, level);
    assert_string_equal(f->where, where);
    if (!tells(f->what, what)) fail_msg("'%s' lacks '%s'", f->what, what);
    if (!tells(f->cure, cure)) fail_msg("'%s' lacks '%s'", f->cure, cure);
  }
}

static void end(launch *x) {
  tri_findings_free(&x->found);
  tri_case_free(&x->c);
  free(x);
}

static void nothing(void **state) {
  launch *x = begin();

  (void)state;
  finds(x, 0, NULL, 0, NULL, NULL, NULL);
  assert_false(x->found.blocks);
  end(x);
}

static void missing(void **state) {
  launch *x = begin();

  (void)state;
  x->f[3].seat.host[0] = '\0';
  finds(x, 1, "ranks", TRI_LEVEL_ERROR, "task 3 on n2", "1 4 30", "srun -w --exclude=n2");
  assert_true(x->found.blocks);
  end(x);
  x = begin();
  x->f[2].seat.host[0] = x->f[3].seat.host[0] = '\0'; /* all ranks of n2 */
  x->reach[0] = (tri_reach){0, -1, true, EHOSTUNREACH, false, "ib0", "n2"};
  x->c.n_reach = 1;
  finds(x, 2, "ranks", TRI_LEVEL_ERROR, "tasks 2-3 on n2", "2 4 30", "--exclude=n2 !srun");
  end(x);
  x = begin();
  x->f[2].seat.host[0] = x->f[3].seat.host[0] = '\0';
  x->reach[0] = (tri_reach){0, -1, true, 0, false, "ib0", "n2"}; /* the node answers */
  x->c.n_reach = 1;
  finds(x, 1, "ranks", TRI_LEVEL_ERROR, "tasks 2-3 on n2", "2 4 30 0", "n1 MTU !--exclude=n2");
  end(x);
}

static void uneven(void **state) {
  launch *x = begin();

  (void)state;
  strcpy(x->f[3].seat.host, "n1");
  x->f[3].seat.locals = 3;
  assert_int_equal(tri_case_number(&x->c, x->f, 0), TRI_OK);
  assert_int_equal(tri_check_seats(&x->c, &x->found), TRI_OK);
  assert_int_equal(x->found.n, 1);
  assert_true(tells(x->found.item[0].cure, "--ntasks-per-node"));
  end(x);
}

static void devices(void **state) {
  launch *x = begin();

  (void)state;
  strcpy(x->f[3].gpu.uuid, "GPU-2");
  finds(x, 1, "device", TRI_LEVEL_ERROR, "ranks 1 (task 2) and 3 on n2", "GPU-2 H100", "--gpus-per-node=2");
  assert_false(x->found.blocks);
  end(x);
  x = begin();
  strcpy(x->f[3].gpu.uuid, "GPU-2");
  x->c.device = "cpu";
  finds(x, 0, NULL, 0, NULL, NULL, NULL);
  end(x);
  x = begin();
  x->f[2].gpu.uuid[0] = x->f[2].gpu.model[0] = '\0';
  finds(x, 1, "device", TRI_LEVEL_ERROR, "rank 0 on n1 and rank 1 (task 2) on n2", "H100 no GPU",
        "run.device: cpu");
  end(x);
  x = begin();
  x->f[1].gpu.no_peer = 1;
  finds(x, 1, "peer", TRI_LEVEL_WARNING, "rank 2 (task 1) on n1", "1", "topo -p2p");
  end(x);
  x = begin();
  x->c.gpu_build = false;
  finds(x, 1, "device", TRI_LEVEL_WARNING, "trireme", "CPUs !run.device", "--preset cuda");
  end(x);
}

static void cores(void **state) {
  launch *x = begin();

  (void)state;
  x->f[3].cores.mask[0] = 3; /* the other rank's of n2 */
  finds(x, 1, "cores", TRI_LEVEL_WARNING, "n2", "2 4", "--cpus-per-task=2");
  end(x);
  x = begin();
  x->f[2].cores.mask[0] = x->f[3].cores.mask[0] = 1;
  x->f[2].cores.allotted = x->f[3].cores.allotted = 1;
  finds(x, 1, "cores", TRI_LEVEL_WARNING, "n2", "2 1", "--cpus-per-task !srun");
  end(x);
  x = begin();
  x->f[2].cores.mask[0] = 7;
  finds(x, 1, "cores", TRI_LEVEL_WARNING, "ranks 1 (task 2) and 3 on n2", "1",
        "--cpu-bind=cores !--gpu-bind");
  end(x);
  x = begin();
  x->f[2].cores.numa = 1;
  finds(x, 1, "cores", TRI_LEVEL_WARNING, "rank 1 (task 2) on n2", "1 GPU 0", "--gpu-bind=closest");
  end(x);
}

static void versions(void **state) {
  launch *x = begin();

  (void)state;
  strcpy(x->f[2].version[TRI_VERSION_MPI], "Open MPI v5.0.1");
  strcpy(x->f[3].version[TRI_VERSION_MPI], "Open MPI v5.0.1");
  finds(x, 1, "versions", TRI_LEVEL_ERROR, "MPI on n1 and n2", "v4.1.4 0 v5.0.1 1",
        "modules LD_LIBRARY_PATH");
  assert_true(strstr(x->found.item[0].what, "v4.1.4") < strstr(x->found.item[0].what, "v5.0.1"));
  assert_true(x->found.blocks);
  end(x);
  x = begin();
  strcpy(x->f[2].version[TRI_VERSION_CPU], "AMX, bf16 by amx, f32 by avx512");
  finds(x, 1, "versions", TRI_LEVEL_WARNING, "instructions on n1 and n2", "AMX bf16 amx f32 avx512 1",
        "--constraint");
  assert_false(x->found.blocks);
  end(x);
  x = begin(); /* only products of f32 differ */
  for (int i = 0; i < 4; i++)
    sprintf(x->f[i].version[TRI_VERSION_CPU], "AVX2, bf16 by f32, f32 by %s",
            i < 2 ? "avx512" : "the library");
  finds(x, 1, "versions", TRI_LEVEL_WARNING, "instructions on n1 and n2", "f32 library 1", "TRI_CPU_F32");
  end(x);
  x = begin();
  strcpy(x->f[2].version[TRI_VERSION_NCCL], "2.28.9");
  finds(x, 1, "versions", TRI_LEVEL_ERROR, "NCCL on n1 and n2", "none 0 2.28.9 1", "modules LD_LIBRARY_PATH");
  assert_false(x->found.blocks);
  end(x);
}

static void limits(void **state) {
  launch *x = begin();

  (void)state;
  x->f[2].limits.memlock = x->f[3].limits.memlock = 65536;
  finds(x, 1, "memlock", TRI_LEVEL_ERROR, "rank 1 (task 2) on n2 and 1 more", "64.0 KiB",
        "ulimit -l unlimited");
  end(x);
  x = begin();
  x->c.device = "cpu"; /* only a network with registered memory needs more */
  x->f[2].limits.memlock = 65536;
  finds(x, 1, "memlock", TRI_LEVEL_WARNING, "rank 1 (task 2) on n2", "64.0 KiB", "ulimit -l unlimited");
  end(x);
  x = begin();
  x->f[1].limits.files = 100;
  finds(x, 1, "files", TRI_LEVEL_WARNING, "rank 2 (task 1) on n1", "100 4 264", "ulimit -n 65536");
  end(x);
  x = begin();
  x->f[2].limits.shm_free = x->f[3].limits.shm_free = (int64_t)64 << 20; /* a container's */
  finds(x, 1, "shm", TRI_LEVEL_ERROR, "n2", "/dev/shm 64.0 MiB 2", "--shm-size");
  end(x);
}

static void clocks(void **state) {
  launch *x = begin();

  (void)state;
  x->clock[2] = (tri_facts_clock){true, -3.5, 0.001};
  finds(x, 1, "clock", TRI_LEVEL_WARNING, "n2", "3.500 behind n1", "chronyd");
  end(x);
  x = begin();
  x->clock[2] = (tri_facts_clock){true, 1.2, 0.9}; /* a slow connection, so it may be 0.3 s */
  finds(x, 0, NULL, 0, NULL, NULL, NULL);
  end(x);
}

static void nets(void **state) {
  launch *x = begin();

  (void)state;
  for (int t = 0; t < TASKS; t++) strcpy(x->f[t].choice[TRI_CHOICE_NCCL], "eth");
  finds(x, 1, "interface", TRI_LEVEL_ERROR, "NCCL_SOCKET_IFNAME=eth on n1", "lo 127.0.0.1 ib0 10.0.0.1",
        "export NCCL_SOCKET_IFNAME=ib0");
  end(x);
  x = begin();
  for (int t = 0; t < TASKS; t++) strcpy(x->f[t].choice[TRI_CHOICE_MPI], "lo");
  finds(x, 1, "interface", TRI_LEVEL_ERROR, "OMPI_MCA_btl_tcp_if_include=lo on n1", "lo !127.0.0.1",
        "unset OMPI_MCA_btl_tcp_if_include");
  end(x);
  x = begin();
  for (int t = 0; t < TASKS; t++) {
    x->f[t].net[2] = (tri_facts_net){"docker0", "172.17.0.1", 16, 0, 0};
    x->f[t].n_net = 3;
  }
  finds(x, 1, "interface", TRI_LEVEL_WARNING, "docker0 on n1 and n2", "172.17.0.1",
        "NCCL_SOCKET_IFNAME=^lo,docker0");
  end(x);
}

/* Interfaces used by Open MPI for TCP, and the pair of one network with which it connects nodes. */
static void nets_of_mpi(void **state) {
  launch    *x = begin();
  tri_facts *f = &x->f[0];

  (void)state;
  f->n_net = 3;
  f->net[2] = (tri_facts_net){"eth9", "10.9.0.1", 16, 0, TRI_FACTS_UNKNOWN};
  assert_false(tri_facts_net_of_mpi(f, &f->net[0]));
  assert_true(tri_facts_net_of_mpi(f, &f->net[1]) && tri_facts_net_of_mpi(f, &f->net[2]));
  assert_ptr_equal(tri_facts_net_beside(f, "10.9.7.2"), &f->net[2]);
  assert_null(tri_facts_net_beside(f, "10.8.0.2"));
  assert_null(tri_facts_net_beside(f, "10.9.0.1")); /* its own */
  strcpy(f->choice[TRI_CHOICE_MPI_NOT], "127.0.0.1/8,10.9.0.0/24");
  assert_true(tri_facts_net_of_mpi(f, &f->net[1]) && !tri_facts_net_of_mpi(f, &f->net[2]));
  assert_null(tri_facts_net_beside(f, "10.9.7.2"));
  strcpy(f->choice[TRI_CHOICE_MPI], "eth9");
  assert_true(!tri_facts_net_of_mpi(f, &f->net[1]) && tri_facts_net_of_mpi(f, &f->net[2]));
  end(x);
}

static void reach(void **state) {
  launch *x = begin();

  (void)state;
  x->reach[0] = (tri_reach){1, 0, true, EHOSTUNREACH, false, "ib0", "10.0.0.1"};
  x->reach[1] = (tri_reach){0, 1, true, ETIMEDOUT, false, "ib0", "10.0.0.2"}; /* the opposite direction */
  x->c.n_reach = 2;
  finds(x, 1, "reach", TRI_LEVEL_ERROR, "n2 - n1", "n2 n1 ib0 10.0.0.1 No route",
        "NCCL_SOCKET_IFNAME --exclude=n1");
  assert_true(x->found.blocks);
  end(x);
  x = begin();
  x->reach[0] = (tri_reach){0, 1, true, TRI_REACH_LARGE, false, "ib0", "10.0.0.2"};
  x->c.n_reach = 1;
  finds(x, 1, "reach", TRI_LEVEL_ERROR, "n1 - n2", "n1 n2 ib0 !10.0.0.2", "MTU ib0");
  end(x);
  x = begin(); /* the nodes reach each other by ib0, but not by a second network that MPI uses too, both
                * ways */
  x->reach[0] = (tri_reach){0, 1, true, 0, false, "ib0", "10.0.0.2"};
  x->reach[1] = (tri_reach){0, 1, true, EHOSTUNREACH, true, "eth9", "10.9.0.2"};
  x->reach[2] = (tri_reach){1, 0, true, 0, false, "ib0", "10.0.0.1"};
  x->reach[3] = (tri_reach){1, 0, true, EHOSTUNREACH, true, "eth9", "10.9.0.1"};
  x->c.n_reach = 4;
  finds(x, 1, "interface", TRI_LEVEL_ERROR, "eth9 on n1 and n2", "10.9.0.2 n2 n1 eth9 No route MPI_Init 2",
        "export OMPI_MCA_btl_tcp_if_exclude=lo docker0 eth9");
  assert_true(x->found.blocks);
  end(x);
  x = begin(); /* with InfiniBand MPI may not need it */
  x->f[0].n_ib = 1;
  x->reach[0] = (tri_reach){0, 1, true, ETIMEDOUT, true, "eth9", "10.9.0.2"};
  x->c.n_reach = 1;
  strcpy(x->f[0].choice[TRI_CHOICE_MPI_NOT], "lo");
  finds(x, 1, "interface", TRI_LEVEL_WARNING, "eth9 on n1 and n2", "10.9.0.2 MPI_Init 1",
        "OMPI_MCA_btl_tcp_if_exclude=lo eth9");
  assert_false(x->found.blocks);
  end(x);
}

static void links(void **state) {
  launch        *x = begin();
  const tri_rate slow = {"n1 - n2", 1 << 22, 1e9, 1e-5, 0, 1}, good = {"n1 - n2", 1 << 22, 8e9, 1e-5, 0, 1};
  const tri_rate rate[] = {{"world", 1 << 22, 1e6, 1e-5, -1, -1}, good, good, slow};

  (void)state;
  assert_int_equal(tri_case_number(&x->c, x->f, 0), TRI_OK);
  assert_int_equal(tri_check_links(&x->c, rate, 3, &x->found), TRI_OK); /* 100 Gbit/s is 12.5 GB/s */
  assert_int_equal(x->found.n, 0);
  assert_int_equal(tri_check_links(&x->c, &slow, 1, &x->found), TRI_OK);
  assert_int_equal(x->found.n, 1);
  assert_true(tells(x->found.item[0].what, "1e+03 ib0 1.25e+04"));
  assert_int_equal(tri_check_links(&x->c, rate, 4, &x->found), TRI_OK);
  assert_int_equal(x->found.n, 2);
  assert_true(tells(x->found.item[1].what, "1e+03 8e+03 !ib0"));
  assert_int_equal(x->found.errors, 0);
  end(x);
}

/* The limit of a small message depends on the kind of link. Ranks on shared cores are not judged. */
static void latencies(void **state) {
  enum { PAIR, NODE };
  static const struct {
    int         scope;
    double      latency_s;
    bool        ib, gpus, same_host, shared;
    const char *what; /* NULL: no finding */
  } row[] = {{PAIR, 1.5e-6, true, true, false, false, NULL},
             {PAIR, 2e-5, true, true, false, false, NULL},
             {PAIR, 4e-5, true, true, false, false, "40 2 InfiniBand"},
             {PAIR, 4e-5, false, true, false, false, NULL},
             {PAIR, 2e-3, false, true, false, false, "2e+03 30 Ethernet"},
             {PAIR, 4e-4, true, true, true, false, "400 1 memory"},
             {PAIR, 2e-3, false, true, false, true, NULL},
             {NODE, 1e-4, false, false, false, false, NULL},
             {NODE, 1e-3, false, false, false, false, "1e+03 1 memory"},
             {NODE, 1e-3, false, true, false, false, NULL},
             {NODE, 1e-3, false, false, false, true, NULL}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    launch        *x = begin();
    const tri_rate pair = {"n1 - n2", 1 << 22, 8e9, row[i].latency_s, 0, 1},
                   node = {"node", 1 << 22, 8e9, row[i].latency_s, -1, -1};
    for (int t = 0; t < TASKS; t++) {
      x->f[t].n_ib = row[i].ib;
      if (!row[i].gpus) x->f[t].gpu.uuid[0] = 0;
      if (row[i].shared) x->f[t].cores.mask[0] = 1, x->f[t].cores.mine = 1;
    }
    assert_int_equal(tri_case_number(&x->c, x->f, 0), TRI_OK);
    for (int t = 0; t < TASKS && row[i].same_host; t++) strcpy(x->f[t].seat.host, "n1"); /* pretended nodes */
    assert_int_equal(tri_check_links(&x->c, row[i].scope == PAIR ? &pair : &node, 1, &x->found), TRI_OK);
    if (x->found.n != (row[i].what != NULL)) fail_msg("row %zu: %d findings", i, (int)x->found.n);
    if (row[i].what) {
      assert_string_equal(x->found.item[0].check, "latency");
      assert_int_equal(x->found.item[0].level, TRI_LEVEL_WARNING);
      if (!tells(x->found.item[0].what, row[i].what)) fail_msg("%s", x->found.item[0].what);
    }
    assert_int_equal(x->found.errors, 0);
    end(x);
  }
}

/* One pair of many is slow, but within the limit of its interface. */
static void a_slow_pair_among_others(void **state) {
  launch  *x = begin();
  tri_rate rate[4];

  (void)state;
  for (int i = 0; i < 4; i++) rate[i] = (tri_rate){"n1 - n2", 1 << 22, 8e9, i == 2 ? 1e-4 : 1e-5, 0, 1};
  assert_int_equal(tri_case_number(&x->c, x->f, 0), TRI_OK);
  assert_int_equal(tri_check_links(&x->c, rate, 4, &x->found), TRI_OK);
  assert_int_equal(x->found.n, 1);
  assert_true(tells(x->found.item[0].what, "100 10"));
  end(x);
}

static void speeds(void **state) {
  launch      *x = begin();
  const double slow[TASKS] = {9e12, 8e12, 3e12, 9e12};

  (void)state;
  assert_int_equal(tri_case_number(&x->c, x->f, 0), TRI_OK);
  assert_int_equal(tri_check_speeds(&x->c, slow, &x->found), TRI_OK);
  assert_int_equal(x->found.n, 1);
  assert_string_equal(x->found.item[0].where, "rank 1 (task 2) on n2");
  end(x);
}

static void folders(void **state) {
  static const struct {
    tri_folder_facts x;
    const char      *hdf5, *check, *what, *cure;
  } row[] = {
      {{.tried = 1, .write = EROFS}, "", "folder", "Read-only", "-o remount"},
      {{.tried = 1, .write = EDQUOT}, "", "folder", "quota", "df quota"},
      {{.tried = 1, .seen = ENOENT}, "", "folder", "0 No such", "run.output !df !remount"},
      {{.tried = 1, .flock = ENOSYS, .kind = "lustre"}, "", "locks", "lustre flock", "Lustre -o flock"},
      {{.tried = 1}, "no space", "hdf5", "no space", "OMPI_MCA_io=romio321"}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    launch          *x = begin();
    tri_folder_facts f[TASKS] = {{.tried = 1}, {0}, row[i].x, {0}};
    assert_int_equal(tri_case_number(&x->c, x->f, 0), TRI_OK);
    assert_int_equal(tri_check_folder(&x->c, "out", f, row[i].hdf5, &x->found), TRI_OK);
    assert_int_equal(x->found.n, 1);
    assert_int_equal(x->found.errors, 1);
    assert_string_equal(x->found.item[0].check, row[i].check);
    if (!tells(x->found.item[0].what, row[i].what))
      fail_msg("'%s' lacks '%s'", x->found.item[0].what, row[i].what);
    assert_true(tells(x->found.item[0].cure, row[i].cure));
    end(x);
  }
}

/* Files are missing on the second of two nodes, or on both. */
static void inputs(void **state) {
  static const char *const path[] = {"model", "a.jsonl"};
  static const struct {
    tri_input_facts n1, n2;
    int             n; /* findings */
    const char     *where, *what, *cure;
  } row[] = {{{0}, {0}, 0, NULL, NULL, NULL},
             {{0}, {ENOENT, 1, 0}, 1, "a.jsonl on n2", "No such file", "node !deck"},
             {{0}, {EACCES, 0, 1}, 1, "model on n2", "Permission denied 1", "node !deck"},
             {{ENOENT, 0, 2}, {ENOENT, 0, 2}, 1, "model on n1 and 1 more", "No such file 2", "node deck"},
             {{ENOENT, 0, 0}, {EACCES, 0, 0}, 2, "model on n1", "No such file", "node !deck"},
             {{0}, {ENOENT, 2, 0}, 0, NULL, NULL, NULL}, /* its deck names more than ours */
             {{0}, {ENOENT, -1, 0}, 0, NULL, NULL, NULL}};

  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    launch         *x = begin();
    tri_input_facts f[TASKS] = {row[i].n1, {ENOENT, 0, 0}, row[i].n2, {0}}; /* task 1 is no first rank and
                                                                             * does not count */
    assert_int_equal(tri_case_number(&x->c, x->f, 0), TRI_OK);
    assert_int_equal(tri_check_inputs(&x->c, path, 2, f, &x->found), TRI_OK);
    assert_int_equal(x->found.n, row[i].n);
    assert_int_equal(x->found.errors, row[i].n);
    if (row[i].n) {
      assert_string_equal(x->found.item[0].check, "inputs");
      assert_string_equal(x->found.item[0].where, row[i].where);
      if (!tells(x->found.item[0].what, row[i].what))
        fail_msg("'%s' lacks '%s'", x->found.item[0].what, row[i].what);
      assert_true(tells(x->found.item[0].cure, row[i].cure));
    }
    end(x);
  }
}

/* With many ranks no line is wider than a screen, and there are few lines. */
static void screen(void **state) {
  enum { MANY = 64 };
  launch         *x = begin();
  tri_facts      *f = calloc(MANY, sizeof *f);
  tri_facts_clock clock[MANY] = {{0}};
  tri_rate        rate[] = {{"world", 1 << 23, 2e9, 1e-5, -1, -1}, {"disk write", 1 << 23, 2e8, 0, -1, -1}};
  tri_text        text = {0};
  int             lines = 0;

  (void)state;
  assert_non_null(f);
  for (int t = 0; t < MANY; t++) {
    f[t] = x->f[t % TASKS];
    f[t].seat.task = f[t].seat.slurm_task = t;
    f[t].seat.tasks = MANY;
    snprintf(f[t].seat.host, sizeof f[t].seat.host, "a-node-of-a-long-name-%02d.cluster", t / 2);
    snprintf(f[t].gpu.uuid, sizeof f[t].gpu.uuid, "GPU-%d", t);
    snprintf(f[t].net[1].address, sizeof f[t].net[1].address, "10.0.1.%d", t / 2);
  }
  x->c.facts = f;
  x->c.tasks = x->l.tasks = MANY;
  x->c.clock = clock;
  strcpy(f[9].gpu.uuid, "GPU-8");
  assert_int_equal(tri_case_number(&x->c, f, 0), TRI_OK);
  assert_int_equal(tri_check_all(&x->c, &x->found), TRI_OK);
  const tri_report r = {&x->c, &x->found, rate, 2, NULL};
  assert_int_equal(tri_report_screen(&r, &text), TRI_OK);
  for (char *at = text.data; *at; lines++) {
    size_t n = strcspn(at, "\n");
    if (n > 79) fail_msg("%zu columns: %.*s", n, (int)n, at);
    at += n + 1;
  }
  if (lines > 30) fail_msg("%d lines:\n%s", lines, text.data);
  assert_non_null(strstr(text.data, "error: device: ranks "));
  assert_true(tells(text.data, "do: --gpus-per-node=2 run.device:"));
  text.len = 0;
  assert_int_equal(tri_report_json(&r, &text), TRI_OK);
  assert_non_null(strstr(text.data,
                         "{\"rank\": 1, \"node\": \"a-node-of-a-long-name-01.cluster\", \"local_rank\": 0, "
                         "\"device\": \"GPU-2\", \"cores\": 2, \"slurm_task\": 2}"));
  assert_non_null(strstr(
      text.data, "{\"scope\": \"disk write\", \"bytes\": 8388608, \"bytes_per_s\": 200000000, \"latency_s\": "
                 "null}]}\n"));
  tri_text_free(&text);
  free(f);
  end(x);
}

/* A launch of 16,384 ranks, eight on each of 2,048 nodes, with errors everywhere. */
enum { LARGE = 16384, PER_NODE = 8, LARGE_NODES = LARGE / PER_NODE, LARGE_WAYS = 22 * LARGE_NODES };

static tri_facts *make_large(launch *x) {
  tri_facts       *f = calloc(LARGE, sizeof *f);
  tri_launch_name *name = calloc(LARGE_NODES, sizeof *name);
  int             *tasks = calloc(LARGE_NODES, sizeof *tasks);

  assert_true(f && name && tasks);
  for (int n = 0; n < LARGE_NODES; n++) {
    snprintf(name[n], sizeof name[n], "n%d", n);
    tasks[n] = PER_NODE;
  }
  for (int t = 0; t < LARGE; t++) {
    f[t] = x->f[0];
    f[t].seat = (tri_facts_seat){
        .task = t, .tasks = LARGE, .local = t % PER_NODE, .locals = PER_NODE, .slurm_task = t};
    snprintf(f[t].seat.host, sizeof f[t].seat.host, "n%d", t / PER_NODE);
    snprintf(f[t].gpu.uuid, sizeof f[t].gpu.uuid, "GPU-%d",
             t - t % PER_NODE / 7); /* the last two share one */
    f[t].cores.online = f[t].cores.allotted = 64;
    f[t].cores.mine = 8;
    f[t].cores.mask[0] = 0xffull << t % PER_NODE * 8;
  }
  x->l.n_node = LARGE_NODES, x->l.node = name, x->l.node_tasks = tasks;
  x->c.facts = f;
  x->c.tasks = x->l.tasks = LARGE;
  return f;
}

static void free_large(launch *x, tri_facts *f) {
  free(x->l.node);
  free(x->l.node_tasks);
  free(f);
  tri_findings_free(&x->found);
}

static void large(void **state) {
  launch          *x = begin();
  tri_facts       *f = make_large(x);
  tri_facts_clock *ahead = calloc(LARGE, sizeof *ahead);
  tri_reach       *way = calloc(LARGE_WAYS, sizeof *way);
  tri_text         text = {0};

  (void)state;
  assert_true(ahead && way);
  for (int i = 0; i < LARGE_WAYS; i++) { /* node n to the 11 before and the 11 behind it, and none answers */
    int n = i / 22, by = i % 22 < 11 ? i % 22 - 11 : i % 22 - 10;
    way[i] =
        (tri_reach){n, (n + by + LARGE_NODES) % LARGE_NODES, true, EHOSTUNREACH, false, "ib0", "10.0.0.1"};
  }
  x->c.clock = ahead;
  x->c.reach = way;
  x->c.n_reach = LARGE_WAYS;
  assert_int_equal(tri_case_number(&x->c, f, 0), TRI_OK);
  assert_true(x->c.even && x->c.nodes == LARGE_NODES);
  assert_int_equal(f[9].seat.rank, LARGE_NODES + 1); /* the second rank of the second node */
  assert_int_equal(tri_check_all(&x->c, &x->found), TRI_OK);
  assert_int_equal(x->found.n,
                   8 + 1 + 1 + LARGE_NODES + 1); /* ways, more ways, one address twice, GPUs, open files */
  assert_string_equal(x->found.item[8].check, "reach");
  assert_true(tells(x->found.item[8].where, "22520"));
  assert_string_equal(x->found.item[9 + LARGE_NODES].where, "ranks 14335 (task 16382) and 16383 on n2047");
  const tri_report r = {&x->c, &x->found, NULL, 0, NULL};
  assert_int_equal(tri_report_json(&r, &text), TRI_OK);
  assert_non_null(strstr(text.data, "{\"rank\": 16383, \"node\": \"n2047\", \"local_rank\": 7, "));
  tri_findings_free(&x->found);
  for (int t = 0; t < LARGE; t++) /* seven of eight came from each node but the first */
    if (t >= PER_NODE && t % PER_NODE == 7) f[t].seat.host[0] = '\0';
  assert_int_equal(tri_case_number(&x->c, f, 0), TRI_OK);
  assert_int_equal(tri_check_seats(&x->c, &x->found), TRI_OK);
  assert_int_equal(x->found.n, LARGE_NODES - 1);
  assert_string_equal(x->found.item[LARGE_NODES - 2].where, "task 16383 on n2047");
  tri_text_free(&text);
  free_large(x, f);
  free(ahead);
  free(way);
  end(x);
}

static void fences(void **state) {
  static const char *const kind[] = {"tree", "mixed", "unset", "ring", ""};

  (void)state;
  for (int i = 0; i < 5; i++) {
    launch *x = begin();
    x->c.fence = kind[i];
    finds(x, i < 3, "fence", TRI_LEVEL_WARNING, "PMIxCollFence of Slurm", kind[i],
          "export SLURM_PMIX_FENCE=ring");
    end(x);
  }
}

/* Ranks are numbered across nodes, and Slurm's tasks are not. 2 x 2 are 0, 2 and 1, 3. */
static void tasks_have_a_column_where_they_differ(void **state) {
  launch    *x = begin();
  tri_text   text = {0};
  tri_report r = {&x->c, &x->found, NULL, 0, NULL};

  (void)state;
  x->c.device = "cpu";
  finds(x, 0, NULL, 0, NULL, NULL, NULL);
  assert_int_equal(tri_report_screen(&r, &text), TRI_OK);
  assert_non_null(strstr(text.data, " rank  task  node             local  device            cores\n"
                                    "    0     0  n1                   0  cpu               0-1 (2)\n"
                                    "    1     2  n2                   0  cpu               0-1 (2)\n"
                                    "    2     1  n1                   1  cpu               2-3 (2)\n"));
  text.len = 0;
  for (int t = 0; t < TASKS; t++) x->f[t].seat.slurm_task = TRI_FACTS_UNKNOWN;
  assert_int_equal(tri_report_screen(&r, &text), TRI_OK);
  assert_non_null(strstr(text.data, " rank  node             local  device                   cores\n"
                                    "    0  n1                   0  cpu                      0-1 (2)\n"));
  tri_text_free(&text);
  end(x);
}

/* The deck requires a missing device, so MPI is not started. */
static void a_device_that_is_absent(void **state) {
  launch *x = begin();

  (void)state;
  x->c.device = "cuda";
  x->c.gpu_build = false;
  finds(x, 1, "device", TRI_LEVEL_ERROR, "trireme", "GPUs CPUs !run.device", "--preset cuda");
  assert_true(x->found.blocks);
  end(x);
  for (int known = 0; known < 2; known++) { /* whether the driver reports a version */
    x = begin();
    x->c.device = "cuda";
    for (int t = 0; t < TASKS; t++) {
      x->f[t].gpu.uuid[0] = x->f[t].gpu.model[0] = '\0';
      if (known) strcpy(x->f[t].version[TRI_VERSION_DRIVER], "580.65");
    }
    finds(x, known, "device", TRI_LEVEL_ERROR, "all 4 ranks", "run.device: cuda", "--gpus-per-node");
    assert_int_equal(x->found.blocks, known);
    end(x);
  }
}

int main(void) {
  const struct CMUnitTest test[] = {cmocka_unit_test(nothing),
                                    cmocka_unit_test(missing),
                                    cmocka_unit_test(uneven),
                                    cmocka_unit_test(devices),
                                    cmocka_unit_test(cores),
                                    cmocka_unit_test(versions),
                                    cmocka_unit_test(limits),
                                    cmocka_unit_test(clocks),
                                    cmocka_unit_test(nets),
                                    cmocka_unit_test(nets_of_mpi),
                                    cmocka_unit_test(reach),
                                    cmocka_unit_test(links),
                                    cmocka_unit_test(latencies),
                                    cmocka_unit_test(a_slow_pair_among_others),
                                    cmocka_unit_test(speeds),
                                    cmocka_unit_test(folders),
                                    cmocka_unit_test(inputs),
                                    cmocka_unit_test(screen),
                                    cmocka_unit_test(large),
                                    cmocka_unit_test(fences),
                                    cmocka_unit_test(tasks_have_a_column_where_they_differ),
                                    cmocka_unit_test(a_device_that_is_absent)};

  return cmocka_run_group_tests(test, NULL, NULL);
}
