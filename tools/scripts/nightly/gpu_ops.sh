# gpu_ops.sh - the nightly part `gpu_ops`. Case 1 runs test_cuda_ops with all that it draws from otherwise, case 2 with
# another seed than tools/test.sh. A kernel of each pointwise op is compiled
# for each layout: minutes at first.

gpu_ops_all() {
    WEFT_TEST_ALL=1 "build/$preset/$program"
}

gpu_ops_drawn() {
    WEFT_TEST_SEED=$((RANDOM + 2)) "build/$preset/$program"
}

nightly_build
while nightly_goes_on; do
    case $next_seed in
    1) nightly_case gpu_ops_all ;;
    *) nightly_case gpu_ops_drawn ;;
    esac
done
