#!/usr/bin/env python3
"""check_settings.py - every structure of the public headers that a caller fills has a row for each of its fields in
tests/graph/test_settings.c, or stands below with the reason why not. A new field fails until somebody has asked what happens
when it is left 0, is out of its range, or contradicts another."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Structure: what its rows look like in test_settings.c: the macros that fill it, up to their closing parenthesis, or the
# head of a table, up to its "};".
ROWS = {
    "weft_optimizer": ["OPTIMIZER(", "TRAIN(", "optimizer_row rows[] =", "trained(", "define SGD", "define GROUPS("],
    "weft_schedule": ["define STEP(", "define COSINE(", "schedule = {", "STEP(", "COSINE(", "PART("],
    "weft_param_group": ["GROUPS("],
    "weft_compile_options": ["COMPILE("],
    "weft_ddp_options": ["DDP("],
    "weft_loader_options": ["weft_loader_options options;"],
    "weft_conv": ["CONV(", "UP(", "VOLUME("],
    "weft_linear_options": ["(weft_linear_options){"],
    "weft_embedding_options": ["(weft_embedding_options){"],
    "weft_batch_norm_options": ["NORM("],
    "weft_window": ["WINDOW("],
    "weft_pool": ["POOL("],
    "weft_interpolation": ["RESIZE("],
    "weft_grid_options": ["GRID("],
    "weft_recurrent": ["LSTM("],
    "weft_attention_options": ["ATTENTION("],
    "weft_rotary_options": ["ROTARY("],
    "weft_recurrent": ["LSTM(", "GRU(", "RNN("],
}
# Field by field elsewhere, or nothing that a caller sets.
ELSEWHERE = {
    "weft_field": "a row of a table: test_fields.c",
    "weft_onnx_axis": "of weft_onnx_options: test_onnx.c",
    "weft_onnx_images": "of weft_onnx_options: test_onnx.c",
    "weft_onnx_constant": "of weft_onnx_options: test_onnx.c",
    "weft_onnx_options": "test_onnx.c, which needs a file for them",
    "weft_env": "hooks: test_faults.c, test_files.c",
    "weft_io": "hooks, all needed: tests/support has failing ones",
    "weft_norm_options": "the ERRORS of test_norm_loss.c",
    "weft_loss": "the ERRORS of test_norm_loss.c",
    "weft_comm_options": "test_comm.c, test_runs.c; lost: test_rings.c",
    "weft_launch": "weft_launch_read fills it: test_launch.c",
    "weft_setting": "by position: test_compare.c",
    "weft_collective": "test_comm.c; contents: test_rings.c",
    "weft_comm_calls": "the functions of a communicator, all needed",
    "weft_comm_event": "written by the library",
    "weft_allocator": "hooks: test_session.c, test_room.c",
    "weft_fit_options": "test_room.c",
    "weft_fit_words": "test_room.c: a_user_reads_words_of_his_own",
    "weft_init": "three fields, by position: the INIT rows",
    "weft_feed": "by position: the RUN rows",
    "weft_fetch": "by position: the RUN rows",
    "weft_preprocess_options": "test_preprocess.c",
    "weft_source_options": "test_sources.c: options_that_make_no_sense_are_told",
    "weft_source": "test_sources.c: sources_that_make_no_sense_are_told",
    "weft_source_array": "by position there",
    "weft_checkpoint_note": "by position: test_checkpoints.c",
    "weft_hook_number": "by position: test_resume.c: hooks_go_on_where_they_were",
    "weft_checkpoint_options": "test_checkpoints.c",
    "weft_trainer_checkpoints": "test_resume.c",
    "weft_optimizer_lr": "by position: test_resume.c: another_rate_is_taken_where_it_is_asked_for",
    "weft_trainer_options": "test_trainer.c: every_option_of_a_trainer_has_a_default_or_an_error",
    "weft_dataset": "by position there",
    "weft_hook": "by position there",
    "weft_evaluator": "functions, all needed: test_evaluators.c: what_does_not_fit_is_refused",
    "weft_tally_size": "test_evaluator_rows.c: what_does_not_fit_is_refused; test_evaluators.c has counts and sums",
    "weft_view": "written by the library",
    "weft_early_stop": "test_hooks.c: a_metric_that_no_longer_improves_stops_all_ranks_at_once, wrong_hooks_are_refused",
    "weft_samples": "test_hook_pictures.c: samples_are_drawn_into_files_and_events; test_hooks.c: wrong_hooks_are_refused",
    "weft_best": "test_hooks.c: the_file_has_the_best_weights, wrong_hooks_are_refused",
    "weft_metric": "written by the library",
    "weft_metrics": "written by the library",
    "weft_progress": "written by the library",
    "weft_failed_step": "written by the library",
    "weft_error": "written by the library",
    "weft_optimizer_definition": "test_own_optimizers.c",
    "weft_slot": "by position: test_own_optimizers.c",
    "weft_optimizer_number": "by position: test_own_optimizers.c",
    "weft_update": "written by the library, then by a builder: test_own_optimizers.c",
    "weft_op_definition": "test_own_ops.c: what_definitions_may_not_be",
    "weft_op_numbers": "test_own_ops.c: what_definitions_may_not_be, what_calls_may_not_be",
    "weft_op_real": "by position there",
    "weft_op_integer": "by position there",
    "weft_op_type": "by position: test_own_ops.c",
    "weft_op_types": "written by the library, then by an infer: test_own_ops.c",
    "weft_op_gradient": "written by the library, then by a gradient: test_own_ops.c",
    "weft_op_tensor": "written by the library",
    "weft_op_run": "written by the library",
    "weft_plateau": "test_schedules.c: a_wrong_plateau_is_refused, a_plateau_lowers_the_rate_as_pytorch",
    "weft_idle_graph": "written by the library",
    "weft_flow_step": "written by the library; texts set it: test_flow.c",
    "weft_port": "written by the library",
    "weft_rename": "by position: test_weights.c",
    "weft_weights_options": "by position: test_weights.c",
    "weft_weights_report": "written by the library",
    "weft_parameter_info": "written by the library",
    "weft_node_info": "written by the library",
    "weft_attribute": "written by the library",
    "weft_onnx_export_options": "by position: tests/onnx/export.py, export_ops.py",
    "weft_stored": "written by the library",
    "weft_memory": "written by the library",
    "weft_node_event": "written by the library",
    "weft_strategy": "test_strategy.c: ones_own_strategy_is_checked_as_weft_s; its functions: runs_ask_the_strategy_first",
    "weft_strategy_call": "written by the library",
    "weft_strategy_subgraph": "by position: test_strategy.c: subgraphs_of_a_strategy_have_its_options",
    "weft_distribution": "test_strategy.c: ones_own_strategy_is_checked_as_weft_s, an_option_that_contradicts_is_an_error",
    "weft_bucket": "written by the library",
    "weft_bucket_member": "written by the library",
    "weft_loader_event": "written by the library",
}
# Structures described by a table of fields (weft/field.h): the file that has it.
TABLES = {
    "weft_compile_options": "runtime/plan/compile_list.h",
    "weft_optimizer": "graph/settings/minimize_list.h",
    "weft_schedule": "graph/settings/schedule.c",
    "weft_trainer_options": "runtime/train/trainer_fields.c",
    "weft_trainer_checkpoints": "runtime/train/trainer_fields.c",
    "weft_checkpoint_options": "runtime/checkpoint/write.c",
    "weft_comm_options": "dist/core/comm_options.c",
    "weft_source_options": "runtime/data/source.c",
    "weft_samples": "runtime/hooks/samples.c",
    "weft_loader_options": "runtime/data/loader.c",
    "weft_preprocess_options": "runtime/data/preprocess.c",
}
# A field that a table can have, by its type: a number, a flag, an enum or a text.
PLAIN = re.compile(r"(bool|int|u?int64_t|double|const char \*|weft_(dtype|device|isa|guard|shard|reduce|schedule_kind|scheduled))\b")
# Numbers of lists, which no text can fill, and where pictures go.
APART = re.compile(r"n_\w+$|path$|tensorboard$")
FIELDS = {
    ("weft_loader_options", "LATER"): "all tables: test_fields.c",
    ("weft_schedule", "kind"): "by position, first",
    ("weft_param_group", "pattern"): "by position, first",
    ("weft_param_group", "lr_scale"): "by position too",
}


def structures(plain=False):
    """{name: [fields]} of every typedef struct { ... } in include/weft; `plain`: of those that a table can have alone."""
    found = {}
    for header in sorted((ROOT / "include/weft").glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, re.S):
            fields = []
            for line in body.split(";"):
                if plain and (not PLAIN.match(line.strip()) or re.search(r"\[|\(|\*.*\*", line)):
                    continue
                line = re.sub(r"\[[^\]]*\]", "", line.strip())
                function = re.search(r"\(\*(\w+)\)", line)
                if function:
                    fields.append(function.group(1))
                elif line:
                    fields += [re.findall(r"\w+", part)[-1] for part in line.split(",")]
            found[name] = fields
    return found


def rows_of(text, heads):
    """What stands after each head, up to the bracket that closes it, or to the end of a table."""
    rows = ""
    for head in heads:
        for match in re.finditer(r"(?<!\w)" + re.escape(head), text):
            at, depth = match.end(), 1
            if head[-1] not in "({":
                rows += text[at:text.find("};", at)] if "define" not in head else text[at:text.find("\n", at)]
                continue
            while depth and at < len(text):
                depth += (text[at] in "({") - (text[at] in ")}")
                at += 1
            rows += text[match.end():at] + "\n"
            if head.startswith("define"):
                rows += text[at:text.find("\n\n", at)]
    return rows


def code_of(text):
    """Without comments, and strings empty: a field that is only spoken of there is not set. A comment may hold a quote,
    and a string the beginning of a comment: whichever begins first."""
    either = r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    return re.sub(either, lambda m: m[0][0] * 2 if m[0][0] in "\"'" else " ", text, flags=re.S)


def check_itself():
    spoken = 'ROW(.a = 1 /* .b, "not" */, "\\".c /*", .d = \'"\', // .e\n .f)'
    found = re.findall(r"\.(\w)", code_of(spoken))
    assert found == ["a", "d", "f"], found


def tables():
    """Plain fields without a row in the table of their structure."""
    wrong, known = [], structures(plain=True)
    for name, path in TABLES.items():
        text = (ROOT / path).read_text()
        wrong += [f"{name}.{f}: no row in {path}" for f in known[name]
                  if not APART.match(f) and not re.search(r"[A-Z]\(([^(),]*, *)?" + f + r" *[,)]|offsetof\(\w+, " + f + r"\)", text)]
    return wrong


def main():
    check_itself()
    text, wrong, known = code_of((ROOT / "tests/graph/test_settings.c").read_text()), [], structures()
    for name, fields in known.items():
        if name in ELSEWHERE:
            continue
        if "reserved" in fields:  # rows write `.reserved = {0, 1}` as LATER
            fields[fields.index("reserved")] = "LATER"
        if name not in ROWS:
            wrong.append(f"{name}: neither rows nor a reason")
            continue
        rows = rows_of(text, ROWS[name])
        wrong += [f"{name}.{f}: no row in tests/graph/test_settings.c" for f in fields
                  if not re.search((r"\b" if f == "LATER" else r"\.") + f + r"\b", rows) and (name, f) not in FIELDS]
    wrong += tables()
    wrong += [f"{name}: it is not in include/weft any more" for name in [*ROWS, *ELSEWHERE] if name not in known]
    wrong += [f"{n}.{f}: it is not there any more" for n, f in FIELDS if f not in known.get(n, [])]
    print("\n".join(wrong) if wrong else f"{sum(len(known[n]) for n in ROWS)} fields of {len(ROWS)} structures have rows")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
