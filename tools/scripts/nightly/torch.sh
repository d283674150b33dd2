# torch.sh - the nightly part `torch`: each model of python/tests/torch_models.py, from PyTorch to a graph of Weft, judged by
# f64, a model a seed. After the last one $folder/table.md is the table of docs/pytorch.md. Needs a Python with torch,
# torchvision, timm, transformers and diffusers of the versions that torch_models.py tells: $WEFT_TORCH_PYTHON, or build/venv,
# into which they are installed; a model whose library is not there is skipped. Sourced by nightly.sh.
python=${WEFT_TORCH_PYTHON:-build/venv/bin/python}

torch_python() {
    cmake --build "build/$preset" --target python >>"$folder/build.txt"
    [[ -x $python ]] || python3 -m venv build/venv
    "$python" -c 'import torch, torchvision, timm, transformers, diffusers, cffi' 2>/dev/null ||
        "$python" -m pip install --quiet cffi numpy $(cd python/tests && "$python" -c \
            'import torch_models; print(*(f"{n}=={v}" for n, v in torch_models.VERSIONS.items()))') || true
}

torch_judge() {
    PYTHONPATH=build/release/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 \
        "$python" -W ignore python/tests/torch_nightly.py judge "$next_seed" "$folder/results.jsonl"
}

if nightly_goes_on; then torch_python; fi
while nightly_goes_on; do
    nightly_case torch_judge
done
if [[ -e $folder/results.jsonl ]]; then
    "$python" python/tests/torch_nightly.py table "$folder/results.jsonl" >"$folder/table.md" || true
fi
