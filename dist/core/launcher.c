/* launcher.c - weft_launch_read: rank and world size from the variables that launchers set, read without
 * changing the environment. Sources: Open MPI's and MPICH's mpirun (OMPI_COMM_WORLD_*, PMI_*, MPI_LOCAL*),
 * PMIx (PMIX_RANK), Slurm's srun(1), torchrun. The table has one row per launcher; the first row whose
 * rank and world are both set wins. */
#include "graph/core/error.h"
#include "weft/comm.h"

#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *launcher;
    /* names of variables; NULL: this launcher sets none */
    const char *rank, *world, *local_rank, *local_world;
} row;

static const row rows[] = {
    {"mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    /* PMIx gives the world size to its library only; under srun --mpi=pmix Slurm sets it. */
    {"mpi", "PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL},
    {"env", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
};
enum { ROWS = sizeof rows / sizeof *rows, MOST_RANKS = 1 << 24 };

/* The value of NAME=value, a pointer into the environment; NULL when it is not set. */
static const char *lookup(char *const *environment, const char *name) {
    size_t n = name ? strlen(name) : 0;
    for (; n && environment && *environment; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=') return *environment + n + 1;
    return NULL;
}

/* Reads a number in [low, high]. *into keeps its value when the variable is not set. */
static weft_status number(char *const *environment, const char *name, int low, int high, int *into,
                          weft_error *error) {
    const char *value = lookup(environment, name);
    if (!value) return WEFT_OK;
    char *end;
    long n = strtol(value, &end, 10);
    if (end == value || *end || n < low || n > high)
        return error_set(error, WEFT_ARGUMENT, "%s is '%s', not a number from %d to %d", name, SHOW(value),
                         low, high);
    *into = (int)n;
    return WEFT_OK;
}

/* MASTER_PORT is the port where ranks meet, unless torchrun's agent listens there itself for PyTorch's
 * processes: then it is the next one. WEFT_MEET_PORT is always right. */
static weft_status read_port(char *const *environment, weft_launch *l, weft_error *error) {
    const char *agent = lookup(environment, "TORCHELASTIC_USE_AGENT_STORE");
    weft_status status = number(environment, "MASTER_PORT", 1, 65535, &l->port, error);
    if (l->port && agent && strcmp(agent, "True") == 0) l->port = l->port < 65535 ? l->port + 1 : 1024;
    return status ? status : number(environment, "WEFT_MEET_PORT", 1, 65535, &l->port, error);
}

/* Reads one launcher's variables; world and local_world bound the ranks read after them. */
static weft_status read_row(const row *r, char *const *environment, weft_launch *l, weft_error *error) {
    weft_status status = number(environment, r->world, 1, MOST_RANKS, &l->world, error);
    if (!status) status = number(environment, r->rank, 0, l->world - 1, &l->rank, error);
    if (!status) status = number(environment, r->local_world, 1, l->world, &l->local_world, error);
    int most = l->local_world ? l->local_world - 1 : l->world - 1;
    if (!status) status = number(environment, r->local_rank, 0, most, &l->local_rank, error);
    if (!status) status = read_port(environment, l, error);
    l->launcher = r->launcher;
    l->address = lookup(environment, "MASTER_ADDR");
    l->token = lookup(environment, "WEFT_JOB_TOKEN");
    return status;
}

/* srun sets these variables for each job step. A batch script or a shell of salloc has SLURM_PROCID as
 * well, for the one process of the script, which is not a rank of the job; "auto" takes that for a program
 * started alone. */
static bool is_batch_script(const row *r, char *const *environment) {
    /* 4294967291 is SLURM_BATCH_SCRIPT, the step ID of a batch script */
    const char *step = lookup(environment, "SLURM_STEP_ID");
    return strncmp(r->rank, "SLURM_", 6) == 0 && (!step || strcmp(step, "4294967291") == 0);
}

/* Under "auto" no launcher is an answer: one rank, alone. A launcher that is asked for by name must have set
 * its variables. */
weft_status weft_launch_read(const char *launcher, char *const *environment, weft_launch *launch,
                             weft_error *error) {
    bool is_auto = !launcher || strcmp(launcher, "auto") == 0, is_known = is_auto;
    if (!launch) return error_set(error, WEFT_ARGUMENT, "weft_launch_read: launch is NULL");
    *launch = (weft_launch){.launcher = "none", .world = 1};
    for (int i = 0; i < ROWS; i++) {
        const row *r = &rows[i];
        if (!is_auto && strcmp(r->launcher, launcher) != 0) continue;
        is_known = true;
        if (!lookup(environment, r->rank) || !lookup(environment, r->world)) continue;
        if (is_auto && is_batch_script(r, environment)) continue;
        return read_row(r, environment, launch, error);
    }
    if (is_auto) return WEFT_OK;
    if (!is_known)
        return error_set(error, WEFT_ARGUMENT, "launcher '%s': it must be auto, mpi, slurm or env",
                         SHOW(launcher));
    return error_set(error, WEFT_NAME,
                     "launcher %s: its variables are not in the environment (looked for %s)", launcher,
                     strcmp(launcher, "mpi") == 0     ? "OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK"
                     : strcmp(launcher, "slurm") == 0 ? "SLURM_PROCID, SLURM_NTASKS"
                                                      : "RANK, WORLD_SIZE");
}
