# ranks_local.sh - as ranks.sh, over Unix sockets: all ranks are on one machine, so no link is cut. Sourced by nightly.sh.
way=local
source tools/scripts/nightly/ranks.sh
