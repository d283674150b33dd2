# onnx.sh - the nightly part `onnx`: a case a row of onnx_cases, each a script of tests/onnx that ends with status 0 where
# nothing is wrong. After it $folder/table.md is the table of docs/onnx.md. Needs a Python with onnx and onnxruntime, and for
# `real` torch, torchvision, transformers, diffusers and onnxscript: $WEFT_TORCH_PYTHON, or build/venv, into which what
# is missing is installed. Sourced by nightly.sh.
#   cases       the node cases of the onnx package
#   graphs      small graphs: values that follow the batch, constants, early opsets
#   batches     nodes with drawn attributes and a batch axis, against onnx's evaluator
#   runtimes    nodes with drawn attributes and shapes, against onnxruntime and the evaluator
#   real        twelve models that PyTorch exports: numbers, ten steps of training
#   export      predict graphs of the zoo as ONNX files, run by onnxruntime, and imported again
#   export_ops  a graph of each op that is exported
python=${WEFT_TORCH_PYTHON:-build/venv/bin/python}

onnx_cases() {
    printf '%s\n' "cases.py --table" graphs.py batches.py runtimes.py real.py "export.py build/$preset/weft-zoo" export_ops.py
}

onnx_python() {
    cmake --build "build/$preset" --target python weft-zoo >>"$folder/build.txt"
    [[ -x $python ]] || python3 -m venv build/venv
    "$python" -c 'import onnx, onnxruntime, onnxscript, cffi' 2>/dev/null ||
        "$python" -m pip install --quiet cffi numpy onnx==1.23.2 onnxruntime==1.32.0 onnxscript || true
}

onnx_run() {
    local script
    script=$(onnx_cases | sed -n "${next_seed}p")
    PYTHONPATH=build/$preset/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$python" -W ignore tests/onnx/$script
}

if nightly_goes_on; then onnx_python; fi
while nightly_goes_on; do
    nightly_case onnx_run
done
if [[ -e $folder/case.1.txt ]]; then sed -n '/^| /p; /^[0-9]* cases: /p' "$folder/case.1.txt" >"$folder/table.md"; fi
