/* ddp_list.h - the options of a subgraph, in the order of dumps. Each row gives an option's field in
 * ddp_attrs, the expression that weft_model_set_ddp copies (`o` is a weft_ddp_options) and the range that
 * is checked; text, dumps, model.bin, JSON and rule L20 follow from it. The last column says whether the
 * option acts in a world of one rank too. Columns: name, type, kind, (from, to, words), source, alone. */
X(bucket_cap_mb, double, ATTR_REAL, (0, 1 << 20), o->bucket_cap_mb, true)
X(zero, int64_t, ATTR_INT, (-1, 2), o->zero, false)
X(shard, int64_t, ATTR_INT, (WEFT_SHARD_GREEDY, WEFT_SHARD_FLAT, shard_words), (int64_t)o->shard, false)
X(broadcast_buffers, bool, ATTR_BOOL, (0, 0), o->broadcast_buffers, false)
X(find_unused_parameters, bool, ATTR_BOOL, (0, 0), o->find_unused_parameters, true)
X(sync_batch_norm, bool, ATTR_BOOL, (0, 0), o->sync_batch_norm, false)
X(bf16_wire, bool, ATTR_BOOL, (0, 0), o->wire == WEFT_BF16, false)
X(process_group, const char *, ATTR_STRING, (0, 0), o->process_group, false)
