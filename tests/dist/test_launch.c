/* test_launch.c - rank and world size from the variables that launchers set. */
#include "support/test.h"
#include "weft/comm.h"

#include <stdlib.h>
#include <string.h>

/* ---- launchers ---- */

static void launch_is(const char *launcher, char *const *environment, const char *want, int rank, int world,
                      int local) {
    weft_launch l;
    weft_error e = {0};
    CHECK_SAYS(weft_launch_read(launcher, environment, &l, &e) == WEFT_OK, "%s", e.text);
    CHECK_TEXT(l.launcher, want);
    CHECK_SAYS(l.rank == rank && l.world == world && l.local_rank == local, "%s: %d of %d, local %d", want,
               l.rank, l.world, l.local_rank);
}

TEST(ranks_are_read_from_every_launcher) {
    char *open_mpi[] = {"OMPI_COMM_WORLD_RANK=3",
                        "OMPI_COMM_WORLD_SIZE=4",
                        "OMPI_COMM_WORLD_LOCAL_RANK=1",
                        "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                        "SLURM_PROCID=0",
                        "SLURM_NTASKS=1",
                        NULL};
    char *mpich[] = {"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", NULL};
    char *pmix[] = {"PMIX_RANK=2", "SLURM_NTASKS=3", "SLURM_LOCALID=0", "SLURM_PROCID=2", NULL};
    char *slurm[] = {"SLURM_PROCID=5", "SLURM_NTASKS=8", "SLURM_LOCALID=1", "SLURM_STEP_ID=0", NULL};
    char *batch[] = {"SLURM_PROCID=0", "SLURM_NTASKS=8", "SLURM_STEP_ID=4294967291", NULL};
    char *torchrun[] = {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500",
                        NULL};
    launch_is("auto", open_mpi, "mpi", 3, 4, 1);
    launch_is("slurm", open_mpi, "slurm", 0, 1, 0);
    launch_is(NULL, mpich, "mpi", 1, 2, 1);
    launch_is("auto", pmix, "mpi", 2, 3, 0);
    launch_is("auto", slurm, "slurm", 5, 8, 1);
    launch_is("auto", batch, "none", 0, 1, 0);
    launch_is("env", torchrun, "env", 1, 2, 1);
    launch_is("auto", (char *[]){"HOME=/root", NULL}, "none", 0, 1, 0);
    weft_launch l;
    CHECK(weft_launch_read("env", torchrun, &l, NULL) == WEFT_OK && l.port == 29500 &&
          strcmp(l.address, "10.0.0.1") == 0 && !l.token);
}

/* torchrun's agent listens at MASTER_PORT, unless an option forbids it. */
TEST(the_port_where_ranks_meet_is_a_free_one) {
    char *torchrun[] = {"RANK=1",
                        "WORLD_SIZE=2",
                        "MASTER_PORT=29500",
                        "TORCHELASTIC_USE_AGENT_STORE=True",
                        "WEFT_JOB_TOKEN=secret",
                        NULL,
                        NULL};
    weft_launch l;
    CHECK(weft_launch_read("env", torchrun, &l, NULL) == WEFT_OK && l.port == 29501);
    CHECK_TEXT(l.token, "secret");
    torchrun[5] = "WEFT_MEET_PORT=7000";
    CHECK(weft_launch_read("env", torchrun, &l, NULL) == WEFT_OK && l.port == 7000);
    torchrun[3] = "TORCHELASTIC_USE_AGENT_STORE=False", torchrun[5] = NULL;
    CHECK(weft_launch_read("env", torchrun, &l, NULL) == WEFT_OK && l.port == 29500);
    torchrun[5] = "WEFT_MEET_PORT=70000";
    CHECK(weft_launch_read("env", torchrun, &l, NULL) == WEFT_ARGUMENT);
}

TEST(launchers_that_say_nonsense_are_refused) {
    weft_launch l;
    weft_error e = {0};
    CHECK(weft_launch_read("mpi", (char *[]){"RANK=0", NULL}, &l, &e) == WEFT_NAME);
    CHECK(weft_launch_read("pigeon", NULL, &l, &e) == WEFT_ARGUMENT);
    CHECK(weft_launch_read("env", (char *[]){"RANK=2", "WORLD_SIZE=2", NULL}, &l, &e) == WEFT_ARGUMENT);
    CHECK_HOLDS(e.text, "RANK is '2', not a number from 0 to 1");
    CHECK(weft_launch_read("env", (char *[]){"RANK=0", "WORLD_SIZE=2x", NULL}, &l, &e) == WEFT_ARGUMENT);
}

SUITE("launchers", {T(ranks_are_read_from_every_launcher), T(the_port_where_ranks_meet_is_a_free_one),
                    T(launchers_that_say_nonsense_are_refused)})
