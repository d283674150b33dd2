# gpu_ops.sh - the nightly part `gpu_ops`. Case 1 runs test_cuda_ops with all that it draws from otherwise, each other
# case draws with its number as the seed, which is 1 in tools/test.sh. A kernel of each pointwise op is compiled
# for each layout: minutes at first.

gpu_ops_all() {
    WEFT_TEST_ALL=1 "build/$preset/tests/cuda_host/$program"
}

gpu_ops_drawn() {
    WEFT_TEST_SEED=$next_seed "build/$preset/tests/cuda_host/$program"
}

while nightly_goes_on; do
    case $next_seed in
    1) nightly_case gpu_ops_all ;;
    *) nightly_case gpu_ops_drawn ;;
    esac
done
