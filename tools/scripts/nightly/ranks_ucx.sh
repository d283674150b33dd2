# ranks_ucx.sh - as ranks.sh, without MPI: over UCX, and one more kind, a rank killed that shares no memory with the
# others. Sourced by nightly.sh.
way=ucx
source tools/scripts/nightly/ranks.sh
