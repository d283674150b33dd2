#!/usr/bin/env bash
# test_tools_ckpt.sh BUILD - graphtool ckpt: what each action tells and writes, of checkpoints of one rank and of two with ZeRO. Files are read by
# the few lines of Python below.
set -uo pipefail
tool=$1/graphtool zoo=$1/weft-zoo
source "$(dirname "$0")/../support/suite.sh"

# says STATUS TEXT COMMAND...: its exit status, and what its two outputs hold.
says() {
    local want=$1 text=$2
    shift 2
    "$tool" "$@" >out 2>err
    local status=$?
    [[ $status == "$want" ]] || fail "$*: status $status, not $want: $(cat err)"
    [[ -z $text ]] || grep -qF -- "$text" out err || fail "$*: it does not say '$text': $(cat out err | head -20)"
}

cat >read.py <<'END'
import json, struct, sys

def tensors(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8 : 8 + n])
    head.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[8 + n :][slice(*v["data_offsets"])]) for k, v in head.items()}
END
digits 400
"$zoo" mlp -b 10 -o mlp.bin || fail "the model"
data="--data image=image --data label=label"
run="train mlp.bin $data --threads 1 --seed 3 --steps 12 --ema 0.9"
"$tool" $run --optimizer-state -o want.st --checkpoint-dir one --checkpoint-every 4 >out 2>err || fail "a run: $(cat err)"
"$tool" $run -o averages.st >out 2>err || fail "a run without checkpoints"
ranks=1 many=one
flags=()
mpirun --version 2>&1 | grep -q "Open MPI" && flags=(--oversubscribe --bind-to none)
if command -v mpirun >/dev/null && timeout 60 mpirun "${flags[@]}" -np 2 "$tool" ${run/mlp.bin/mlp.bin --batch 5} --zero 2 --shard flat --checkpoint-dir two --checkpoint-every 4 >out 2>err; then
    ranks=2 many=two
fi

# list and verify
says 0 "step-00000008      1" ckpt list one
[[ $(grep -c whole out) == 3 ]] || fail "three are whole: $(cat out)"
says 0 "whole" ckpt list one/step-00000004/
says 0 "step-00000012      $ranks" ckpt list $many
"$tool" ckpt list one --json >list.json
python3 - <<'END' || fail "list as JSON: $(cat list.json)"
import json, os
for c in json.load(open("list.json"))["checkpoints"]:
    files = sum(os.path.getsize(f"{c['path']}/{f}") for f in os.listdir(c["path"]) if f.startswith("rank-"))
    assert (c["world"], c["bytes"], c["whole"], c["best"]) == (1, files, True, False), c
END
says 0 "whole" ckpt verify one
cp -r one hurt
printf x | dd of=hurt/step-00000008/rank-0.safetensors bs=1 seek=100000 conv=notrunc status=none
truncate -s 1000 hurt/step-00000012/rank-0.safetensors
rm hurt/step-00000004/manifest.json
says 0 "not whole: rank-0.safetensors: its checksum is" ckpt list hurt
mkdir hurt/step-00000016.tmp
says 0 "step-00000016.tmp" ckpt list hurt
grep -q "^ *step-00000016.tmp  *not complete: under way, or left by a process that ended$" out || fail "what was left: $(cat out)"
rmdir hurt/step-00000016.tmp
grep -q "not whole: rank-0.safetensors: 1000 bytes, the manifest says" out || fail "a cut file: $(cat out)"
grep -q "not whole: manifest.json: cannot be opened" out || fail "no manifest: $(cat out)"
says 1 "hurt/step-00000008/rank-0.safetensors: its checksum is" ckpt verify hurt
says 2 "it has no checkpoint that is whole: each was skipped" ckpt show hurt
says 2 "1000 bytes, the manifest says" ckpt show hurt/step-00000012
says 1 "1000 bytes, the manifest says" ckpt verify hurt/step-00000012
says 2 "mlp.bin: cannot be listed: Not a directory" ckpt verify mlp.bin
says 2 "one/step-80/: there is no such checkpoint; one has step-00000012, step-00000008, step-00000004" ckpt show one/step-80/
says 2 "step-80: there is no such checkpoint; . has none" ckpt diff one step-80
mkdir empty
for action in "list" "verify" "show"; do
    says 2 "nowhere: there is no such folder" ckpt $action nowhere
    says 2 "empty: it has no checkpoint, a folder step-N" ckpt $action empty
done

# a training that is resumed within a lower instruction set of oneDNN says so, and with another version, too; WEFT_ISA would hold instead
isa=$("$tool" plan mlp.bin --json | sed -n '/"library"/,/}/s/.*"isa": "\(.*\)".*/\1/p')
[[ -n $isa ]] || fail "plan --json does not say what oneDNN uses"
if [[ $isa != sse41 && -z ${WEFT_ISA-} && $(uname -m) == x86_64 ]]; then
    cp -r one lower
    ONEDNN_MAX_CPU_ISA=SSE41 says 0 "onednn isa was $isa, and is sse41 from iteration 12 on" ${run/12/13} --checkpoint-dir lower --resume auto -o lower.st
fi
sed 's/"onednn": "[0-9.]*"/"onednn": "1.2.3"/' one/step-00000012/manifest.json >changed.json
cmp -s changed.json one/step-00000012/manifest.json && fail "a checkpoint does not keep the version of oneDNN"

# show: numbers, and all tensors with their types
form=$(grep -o '"fingerprint": "[0-9a-f]*"' one/step-00000012/manifest.json | grep -o '[0-9a-f]\{16\}')
says 0 "model mlp (fingerprint $form), step 12, seed 3, $ranks rank" ckpt show $many
"$tool" ckpt show one --json >shown.json || fail "show as JSON"
python3 - <<'END' || fail "show is not what the files hold"
import json, struct
from read import tensors
shown = json.load(open("shown.json"))
have = tensors("one/step-00000012/rank-0.safetensors")
manifest = json.load(open("one/step-00000012/manifest.json"))
numbers = {k: struct.unpack("<d", v[2])[0] for k, v in have.items() if v[:2] == ("F64", [])}
assert shown["numbers"] == numbers and numbers, (shown["numbers"], numbers)
assert shown["fingerprint"] == manifest["fingerprint"]
assert shown["settings"] == manifest["settings"] and shown["settings"]["threads"] == "1", shown["settings"]
assert all(value.strip('"') for value in shown["settings"].values()), shown["settings"]
assert shown["position"] == manifest["notes"] and shown["position"]["trainer/iteration"] == 12
got = {t["name"]: (t["type"].upper(), t["shape"], t["bytes"]) for t in shown["tensors"]}
assert got == {k: (v[0], v[1], len(v[2])) for k, v in have.items() if k not in numbers}, got
END

# consolidate, export: the bytes of the files that trainings write, and ones that a training and eval take
says 0 "" ckpt consolidate one -o all.st
cmp all.st want.st || fail "consolidate writes other bytes than --optimizer-state"
says 0 "" ckpt export one -o values.st
says 0 "" ckpt export one --averages -o got.st
cmp got.st averages.st || fail "the averages are others"
says 0 "" ckpt consolidate $many/step-00000012 -o many.st
says 0 "" ckpt export $many -o many.values.st
python3 - <<'END' || fail "export writes other values"
from read import tensors
for all, values in ("all.st", "values.st"), ("many.st", "many.values.st"):
    assert {k: v for k, v in tensors(all).items() if not k.startswith("optimizer.")} == tensors(values)
END
says 2 "it is a folder: --weights takes a file; of a checkpoint it is made by graphtool ckpt export $many -o FILE" \
    eval mlp.bin $data -w $many
says 0 "" eval mlp.bin $data -w many.values.st
mv out values.out
says 0 "" eval mlp.bin $data -w many.st
cmp out values.out || fail "eval of a consolidated file"
says 0 "" train mlp.bin $data --threads 1 --ema 0.9 --steps 2 -w many.st -o more.st
! grep -q "steps of logs" err || fail "there is one counting: $(cat err)"
says 0 "steps of logs count from 13, after those of --weights; checkpoints count from 1" train mlp.bin $data --threads 1 --ema 0.9 --steps 2 -w many.st --checkpoint-dir more --log more.jsonl
[[ -d more/step-00000002 && $(grep -o '"step":[0-9]*' more.jsonl | head -1) == '"step":13' ]] || fail "another counting: $(ls more) $(cat more.jsonl)"

# reshard: any number of files, the same training
says 0 "" ckpt reshard $many/step-00000004 --world 3 -o three
[[ $(ls three/step-00000004 | tr '\n' ' ') == "manifest.json rank-0.safetensors rank-1.safetensors rank-2.safetensors " ]] || fail "reshard: $(ls three/*)"
says 2 "three: it has step 4: choose another folder" ckpt reshard $many/step-00000004 --world 3 -o three
says 0 "26 tensors and all numbers are the same" ckpt diff $many/step-00000004 three
says 0 "" ckpt reshard one/step-00000004 --world 5 -o five
"$tool" $run --optimizer-state -o got.st --checkpoint-dir five --resume auto >out 2>err || fail "a resharded one: $(cat err)"
cmp got.st want.st || fail "a resharded one ends with other weights"

says 2 "1 to 65536" ckpt reshard one/step-00000004 --world 1000000 -o million
[[ ! -e million ]] || fail "a refused reshard leaves a folder"

# diff: which, how many, how much
says 1 "numbers differ" ckpt diff one/step-00000004 one/step-00000012
"$tool" ckpt diff one/step-00000004 one/step-00000012 --json >diff.json
python3 - <<'END' || fail "diff tells of other differences"
import json, struct
from read import tensors
told = json.load(open("diff.json"))
a, b = (tensors(f"one/step-000000{n}/rank-0.safetensors") for n in ("04", "12"))
want = {}
for name in a:
    f = "<%d%s" % (len(a[name][2]) // (8 if a[name][0] == "F64" else 4), "d" if a[name][0] == "F64" else "f")
    pairs = [(x, y) for x, y in zip(struct.unpack(f, a[name][2]), struct.unpack(f, b[name][2])) if x != y]
    if pairs:
        want[name] = (len(pairs), max(abs(x - y) for x, y in pairs))
got = {t["name"]: (t["count"], t["max"]) for t in told["different"]}
assert got == want, (got, want)
numbers = {n["name"]: (n["first"], n["second"]) for n in told["numbers"]}
assert numbers["step"] == (4, 12) and numbers["trainer/iteration"] == (4, 12) and not any("seconds" in n for n in numbers), numbers
assert not told["same"] and not told["alone"]
END
"$tool" train mlp.bin $data --threads 1 --seed 3 --steps 4 --checkpoint-dir plain >out 2>err || fail "without averages"
says 1 "the second one has it not" ckpt diff one/step-00000004 plain
says 2 "it has no averages of parameters" ckpt export --averages plain -o x.st

# another model: heads of attention are an attribute alone, so names, types and shapes are the same
python3 -c "print('a stitch in time saves nine. ' * 40)" >text.txt
for heads in 2 4; do
    "$zoo" gpt --layers 1 --d 32 --heads $heads --ctx 16 --vocab 128 -b 4 -o heads$heads.bin || fail "a model of $heads heads"
done
gpt="--data tokens,target=text.txt:window=16,pairs=1,dtype=i32 --threads 1 --steps 4 --checkpoint-every 2 --resume auto"
"$tool" train heads2.bin $gpt --checkpoint-dir heads >out 2>err || fail "a gpt: $(cat err)"
says 2 "heads/step-00000004: it is a checkpoint of another model (its fingerprint is" train heads4.bin $gpt --checkpoint-dir heads
grep -qF "heads: it has no checkpoint of this model: each was skipped: resume with the model that it is of" err || fail "another model: $(cat err)"
"$tool" train heads4.bin $gpt --checkpoint-dir others >out 2>err || fail "another gpt: $(cat err)"
rm -r heads/step-00000004 && mv others/step-00000004 heads
says 0 "resumed from heads/step-00000002: iteration 2" train heads2.bin ${gpt/steps 4/steps 3} --batch 2 --checkpoint-dir heads
grep -q "skipped: heads/step-00000004: it is a checkpoint of another model" err || fail "the newest is of another model: $(cat err)"
says 0 "whole" ckpt list heads
[[ $(grep -c whole out) == 3 ]] || fail "nothing is removed: $(cat out)"

# wrong words
says 2 "no action 'lst': did you mean 'list'?" ckpt lst one
says 2 "an action is needed" ckpt
says 2 "ckpt list: it takes one folder" ckpt list
says 2 "ckpt diff: it takes two folders" ckpt diff one
says 2 "ckpt show: --world has no effect" ckpt show one --world 2
says 2 "ckpt consolidate: --output=FILE is needed" ckpt consolidate one
says 2 "ckpt reshard: --world=N is needed" ckpt reshard one -o six
says 2 "it is a file of the checkpoint too" ckpt export one -o one/step-00000004/rank-0.safetensors
says 2 "it would be inside a checkpoint" ckpt export one -o one/step-00000004/new.safetensors
says 0 "whole" ckpt verify one
[[ ! -e x.st && ! -e six ]] || fail "a refused action wrote"

[[ $failures == 0 ]] && echo "all passed"
exit $((failures > 0))
