#!/usr/bin/env python3
"""read_events.py FOLDER - what test_logs.c and test_hook_pictures.c left in a folder (WEFT_TEST_EVENTS), read by the tensorboard
package: the scalars of FOLDER/logs are those of FOLDER/log.csv, and FOLDER/samples has pictures."""
import csv
import io
import sys
from pathlib import Path

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder = Path(sys.argv[1])


def load(name):
    events = EventAccumulator(str(folder / name))
    events.Reload()
    return events


logs, samples = load("logs"), load("samples")
read = {(e.step, tag): e.value for tag in logs.Tags()["scalars"] for e in logs.Scalars(tag)}
wanted = {(int(r["step"]), f"{r['phase']}/{r['name']}"): float(r["value"]) for r in csv.DictReader((folder / "log.csv").open())}
same = lambda key: abs(read[key] - wanted[key]) <= 1e-6 * abs(wanted[key]) or key[1].endswith("samples_per_second")
if not wanted or read.keys() != wanted.keys() or not all(map(same, wanted)):
    sys.exit(f"TensorBoard reads {read}, the log has {wanted}")
pictures = samples.Images("samples")
sizes = [(p.step, Image.open(io.BytesIO(p.encoded_image_string)).size, (p.width, p.height)) for p in pictures]
if sizes != [(5, (18, 6), (18, 6)), (10, (18, 6), (18, 6))]:
    sys.exit(f"TensorBoard reads pictures {sizes}")
print(f"{len(read)} scalars and {len(sizes)} pictures are those that were written")
