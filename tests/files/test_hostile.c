/* test_hostile.c - 5,000 seeded mutations of a good file of each format: flipped bits, cuts, insertions,
 * numbers and lengths that are wrong, keys twice, deep nesting. Loading returns a value or a clean error;
 * nothing crashes (also run under the sanitizers), leaks, or allocates memory that the file's length does not
 * justify. The formats are rows of support/hostile_*.c. */
#include "support/hostile/hostile.h"

enum { MUTANTS = 5000, QUICK = 1000 };

TEST(models_and_plans_survive_mutation) {
    hostile_attack(hostile_models, MUTANTS, QUICK);
}

TEST(settings_survive_mutation) {
    hostile_attack(hostile_settings, MUTANTS, QUICK);
}

TEST(arrays_and_weights_survive_mutation) {
    hostile_attack(hostile_arrays, MUTANTS, QUICK);
}

TEST(images_survive_mutation) {
    hostile_attack(hostile_images, MUTANTS, QUICK);
}

TEST(checkpoints_survive_mutation) {
    hostile_attack(hostile_checkpoints, MUTANTS, QUICK);
}

SUITE("hostile",
      {T(models_and_plans_survive_mutation), T(settings_survive_mutation),
       T(arrays_and_weights_survive_mutation), T(images_survive_mutation), T(checkpoints_survive_mutation)})
