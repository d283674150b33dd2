/** @file
 * weft.h - everything that a program needs: includes the other headers in reading order.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include "weft/api.h"         /* version, and the mark of public functions */
#include "weft/status.h"      /* status codes and the one error type */
#include "weft/field.h"       /* options as data: their names, kinds, ranges, and their text */
#include "weft/env.h"         /* allocator, file access, log callback: all replaceable */
#include "weft/model.h"       /* model, graph, value, scope, input, parameter, state, output */
#include "weft/ops.h"         /* every op as a builder */
#include "weft/collectives.h" /* ops over ranks: sums, gathers and broadcasts in a graph */
#include "weft/op.h"          /* an op of your own: infer, gradient, kernel */
#include "weft/layers.h"      /* layers: ops with their parameters made or found by name */
#include "weft/schedule.h"    /* how learning rates, momentum and weight decay change */
#include "weft/train.h"       /* gradients, optimizers, schedules, minimize, freezing */
#include "weft/ddp.h"         /* which parameters share gradients between ranks, and how */
#include "weft/plan.h"        /* compile: model -> plan; dumps, verification, memory figures */
#include "weft/memory.h"      /* whether what a plan needs is there, and what would fit */
#include "weft/flow.h"        /* which graphs a training runs, in which order, on which batches */
#include "weft/session.h"     /* store and session: where values live and how graphs run */
#include "weft/strategy.h"    /* how a training is spread over ranks: by name, or your own strategy */
#include "weft/bad_step.h"    /* bad steps: what made the first NaN */
#include "weft/plateau.h"     /* a learning rate that falls when a metric no longer improves */
#include "weft/comm.h"        /* communicators: how ranks exchange tensors */
#include "weft/support.h"     /* errors, memory and files for code around the library */
#include "weft/file.h"        /* model.bin and safetensors */
#include "weft/checkpoint.h"  /* all that a training needs to resume, saved while it runs */
#include "weft/source.h"      /* sources of data: files, folders, functions of your own */
#include "weft/preprocess.h"  /* images cropped, flipped and normalized in the graph */
#include "weft/data.h"        /* arrays, and shuffled batches of sources */
#include "weft/evaluator.h"   /* accuracy and other numbers by sample of a validation or a test */
#include "weft/trainer.h"     /* the loop around the steps: training, validation, prediction */
#include "weft/hooks.h"       /* hooks that Weft brings: logs, early stop, the best weights */
#include "weft/onnx.h"        /* ONNX files become graphs */
#include "weft/here.h"        /* records the caller's file and line in each builder call */

#endif
