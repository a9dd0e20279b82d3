/* test_config_group.c - the least group of an algorithm, above the default of algo.num_generations. Judge:
 * the sentence, worked by hand, with a stand-in for an algorithm. */
#include "config_case.h"

/* algo.c's table with one row more; the program then takes nothing from the room's own. */
#undef TRI_ALGO_LIST
#define TRI_ALGO_LIST(ROW) ROW(sft) ROW(grpo) ROW(crowd)
extern const tri_algo tri_algo_crowd;
#include "algo/algo.c"

static const char *const options[] = {"algo.num_generations", NULL};
static const char *const metrics[] = {NULL};

static tri_status no_advantage(const tri_algo_opt *o, tri_rollout *r) {
  (void)o;
  (void)r;
  return TRI_OK;
}

static tri_status no_loss(const tri_algo_opt *o, const tri_loss_in *in, tri_loss_out *out) {
  (void)o;
  (void)in;
  (void)out;
  return TRI_OK;
}

const tri_algo tri_algo_crowd = {.name = "crowd",
                                 .needs = TRI_NEEDS_ANSWERS,
                                 .least_group = 16,
                                 .option = options,
                                 .metric = metrics,
                                 .weigh = tri_weigh_by_mode,
                                 .advantage = no_advantage,
                                 .loss = no_loss};

/* Where the deck leaves the key out, its default is 8, and the deck the only place there is. */
static void a_default_below_the_least_group_is_refused(void **state) {
  (void)state;
  bad(GRPO, ARGS("algo.name=crowd"),
      "d.yaml: algo.num_generations = 8: crowd compares the answers of a group, at least 16 are needed");
  bad(GRPO, ARGS("algo.name=crowd", "algo.num_generations=null"),
      "d.yaml: algo.num_generations = 8: crowd compares the answers of a group, at least 16 are needed");
  bad(GRPO "  num_generations: 15\n", ARGS("algo.name=crowd"),
      "d.yaml:16: algo.num_generations = 15: crowd compares the answers of a group, at least 16 are needed");
  tri_config c = good(GRPO, ARGS("algo.name=crowd", "algo.num_generations=16"));
  tri_config_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_default_below_the_least_group_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
