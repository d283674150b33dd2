#!/usr/bin/env python3
"""make_evaluator_rows.py - the numbers of tests/train/test_evaluator_rows.c by scikit-learn.

    python tests/golden/make_evaluator_rows.py       (writes tests/golden/evaluator_rows.h)

ROC_SCORES f32[41] with ties, ROC_CLASSES f32[41,2] two for each sample, ROC_LABELS of 1, 0 and -100; FIRSTS and SECONDS f32[41,6]
vectors that belong together; then what roc_auc_score and top_k_accuracy_score say.
"""
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score, top_k_accuracy_score

random = np.random.default_rng(3)
N = 41
labels = random.integers(0, 2, N)
scores = (random.normal(size=N) + labels).round(1).astype(np.float32)
classes = random.normal(size=(N, 2)).astype(np.float32)
classes[:, 1] += labels
labels[[3, 11, 12, 40]] = -100
firsts = random.normal(size=(N, 6)).astype(np.float32)
seconds = (firsts + 1.5 * random.normal(size=(N, 6))).astype(np.float32)

counts = labels >= 0
softmax = np.exp(classes.astype(np.float64))
softmax /= softmax.sum(1, keepdims=True)
products = firsts.astype(np.float64) @ seconds.astype(np.float64).T


def recall(products, k):
    return top_k_accuracy_score(np.arange(N), products, k=k)


def array(kind, name, values):
    texts = [float(v).hex() if kind != "int32_t" else str(v) for v in values]
    return f"static const {kind} {name}[] = {{{', '.join(texts)}}};"


lines = ["/* made by make_evaluator_rows.py */", "#include <stdint.h>"]
for kind, name, t in [("float", "ROC_SCORES", scores), ("float", "ROC_CLASSES", classes), ("int32_t", "ROC_LABELS", labels),
                      ("float", "FIRSTS", firsts), ("float", "SECONDS", seconds)]:
    lines.append(array(kind, name, t.flatten()))
for name, value in [("AUC", roc_auc_score(labels[counts], scores[counts])),
                    ("AUC_CLASSES", roc_auc_score(labels[counts], softmax[counts, 1])),
                    ("RECALL_1", recall(products, 1)), ("RECALL_5", recall(products, 5)), ("RECALL_5_BACK", recall(products.T, 5))]:
    lines.append(f"static const double {name} = {float(value).hex()};")
(Path(__file__).resolve().parent / "evaluator_rows.h").write_text("\n".join(lines) + "\n")
