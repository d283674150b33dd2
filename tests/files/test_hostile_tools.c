/* test_hostile_tools.c - mutations of the files that graphtool itself reads, as test_hostile.c does it. */
#include "fuzz/hostile_config.h"

TEST(configurations_survive_mutation) {
    hostile_attack(hostile_configs, 5000, 1000);
}

TEST(rings_and_bad_steps_survive_mutation) {
    hostile_attack(hostile_lost, 5000, 1000);
}

SUITE("hostile: tools", {T(configurations_survive_mutation), T(rings_and_bad_steps_survive_mutation)})
