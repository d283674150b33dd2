/* compile_list.h - the settings of weft_compile_options, in the order of plans and fingerprints. A new option
 * is a field in weft/plan.h, a row here, its use and its test (docs/adding-an-option.md). Checks, text
 * (weft_fields_read), the comparison of ranks, what checkpoints keep, bad.step and graphtool's
 * options follow from the row. FIELD is a setting of programs alone; OPTION is an option of graphtool, too.
 * Columns: field, kind, RANGE or WORDS, uses (graph/settings/field.h), what 0 means, what it means; the
 * option's name, letter, argument, group of commands that take it (options.h), and other fields of
 * option_row.
 *
 * A text of other meaning on the command line (flow, guard) is a FIELD here and has a row of its own
 * there. */
#ifndef FIELD
#define FIELD(...)
#endif
#define RANGE(least, most) (least), (most), NULL
#define WORDS(words)       0, 0, (words)
#define RANKS              COMPILE_OF_RANKS
#define NUMBERS            COMPILE_OF_NUMBERS
#define CPU                COMPILE_OF_CPU
#define GPU                COMPILE_OF_GPU

OPTION(device, WORD, WORDS(device_words), RANKS | NUMBERS, NULL,
       "cpu or cuda; compiling for cuda needs no GPU, running does (cpu)", "device", 0, "NAME", PLAN, )
OPTION(deterministic, FLAG, RANGE(0, 1), RANKS, NULL, "on a GPU: the same bits in every run", "deterministic",
       0, NULL, PLAN, )
OPTION(tf32, FLAG, RANGE(0, 1), RANKS | GPU, NULL,
       "on a GPU: products of f32 may round their operands to TF32", "tf32", 0, NULL, PLAN, )
OPTION(world, INT, RANGE(1, 1 << 20), RANKS, "1",
       "ranks that train together, or files that ckpt reshard writes (1)", "world", 0, "N", WORLD, )
OPTION(rank, INT, RANGE(0, (1 << 20) - 1), 0, NULL, "compile for this rank, from 0 (0)", "rank", 0, "R",
       WORLD, )
OPTION(batch, COUNT, RANGE(1, INT32_MAX), RANKS, "the model's", "batch size (the model's default)", "batch",
       'b', "N", PLAN, .elsewhere = "batch-size train-batch-size minibatch bs")
OPTION(threads, INT, RANGE(1, 1024), RANKS | CPU, "every core that the process may use",
       "threads (every core that the process may use)", "threads", 't', "T", PLAN,
       .elsewhere = "num-threads jobs")
OPTION(isa, WORD, WORDS(isa_words), RANKS | CPU, NULL,
       "highest instruction set of kernels: auto, reference, sse2, avx2 or avx512 (WEFT_ISA, or auto)", "isa",
       0, "NAME", PLAN, )
OPTION(strategy, TEXT, RANGE(0, 0), RANKS, NULL,
       "single, ddp, separate_ddp or zero, with its fields: zero:stage=2 (the model's, or separate_ddp)",
       "strategy", 0, "NAME:FIELDS", SPREAD, )
FIELD(flow, TEXT, RANGE(0, 0), RANKS, NULL, "compile the graphs of this flow alone")
OPTION(accumulate, INT, RANGE(1, 1 << 20), RANKS, "1",
       "micro-batches a step, for graphs whose flow does not say it (1)", "accumulate", 0, "K", STEP,
       .elsewhere = "gradient-accumulation-steps grad-accum")
FIELD(manual, FLAG, RANGE(0, 1), RANKS, NULL, "manual optimization: losses, gradients and updates are calls")
OPTION(bucket_cap_mb, REAL, RANGE(0, 1 << 20), RANKS, "a sixteenth of the subgraph, at most 25",
       "size of a gradient bucket in MiB (a sixteenth of the subgraph, at most 25)", "bucket-cap-mb", 0,
       "MIB", SPREAD, )
OPTION(zero, INT, RANGE(0, 2), RANKS, "0",
       "ZeRO stage: 1 shards optimizer state and updates over ranks, 2 gradients too (0)", "zero", 0, "STAGE",
       SPREAD, )
OPTION(shard, WORD, WORDS(shard_words), RANKS, NULL,
       "how ZeRO shards: greedy, whole parameters; flat, equal ranges (greedy)", "shard", 0, "HOW", SPREAD, )
OPTION(serial, FLAG, RANGE(0, 1), RANKS, NULL,
       "wait for each collective where it starts, so that nothing overlaps", "serial", 0, NULL, SPREAD, )
OPTION(reduce, WORD, WORDS(reduce_words), RANKS | NUMBERS, NULL,
       "sums over ranks: ordered, the same bits in any world; fast; auto, fast with NCCL (auto)", "reduce", 0,
       "HOW", SPREAD, )
FIELD(check_equal, FLAG, RANGE(0, 1), RANKS, NULL, "first values of the ranks are compared, not made equal")
OPTION(precision, DTYPE, WORDS(precision_words), RANKS, NULL,
       "type of matrix products, convolutions and attention: f32, bf16 or f16 (f32)", "dtype", 0, "NAME",
       PLAN, .elsewhere = "amp half fp16 bf16")
FIELD(guard, WORD, WORDS(guard_words), RANKS, NULL, "what makes a step bad, so that it changes nothing")
FIELD(guard_factor, REAL, RANGE(1, 1000000000), RANKS, "10",
      "a loss of more than this times its running mean is a spike")
FIELD(unoptimized, FLAG, RANGE(0, 1), RANKS | NUMBERS, NULL, "nodes run as they were built and derived")
OPTION(calibration, TEXT, RANGE(0, 0), 0, NULL,
       "on a GPU: use the algorithms of this table, made by graphtool calibrate", "calibration", 0, "FILE",
       PLAN, .sharing = CONTENT, .file = READS)
FIELD(graph, TEXT, RANGE(0, 0), 0, NULL, "compile this graph alone")
OPTION(stop_after, TEXT, RANGE(0, 0), 0, NULL,
       "stop after this pass of the compiler, and print the plan as text", "after", 0, "PASS", PICKED, )
FIELD(verify, FLAG, RANGE(0, 1), 0, NULL, "the verifier runs after every pass")
OPTION(no_memory_check, FLAG, RANGE(0, 1), 0, NULL, "run although the memory that is free looks too small",
       "no-memory-check", 0, NULL, FEED, )

#undef RANGE
#undef WORDS
#undef RANKS
#undef NUMBERS
#undef CPU
#undef GPU
#undef OPTION
#undef FIELD
