/** @file
 * onnx.h - ONNX files become graphs of a model, and graphs ONNX files: `libweft_train`.
 *
 *     weft_onnx *file = weft_onnx_open("resnet18.onnx", NULL, &error);
 *     weft_model *m = weft_model_new("resnet18");
 *     weft_onnx_graph(file, m, "predict", WEFT_EVAL, NULL, &error);
 *     weft_onnx_weights(file, "resnet18.safetensors", &error);
 *     weft_onnx_close(file);
 *
 * Initializers of floating point are parameters; scalars, integers and what follows from them are constants.
 * What depends on constants and shapes alone is computed once, here. Files may be hostile. docs/onnx.md has
 * the table of operators.
 *
 *     weft_onnx_export(graph, store, "generator.onnx", NULL, &error);
 */
#ifndef WEFT_ONNX_H
#define WEFT_ONNX_H

#include "weft/file.h"
#include "weft/preprocess.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An ONNX file that is open for reading. */
typedef struct weft_onnx weft_onnx;

/** The length of an axis that a file only names, as "sequence". */
typedef struct weft_onnx_axis {
    const char *name; /**< the axis: dim_param in the file */
    int64_t length;   /**< at least 1, or WEFT_BATCH */
} weft_onnx_axis;

/** A value for an input, which then is a constant and no input of the graph. */
typedef struct weft_onnx_constant {
    const char *name;                 /**< of the input in the file */
    weft_dtype dtype;                 /**< its type */
    int ndim;                         /**< number of axes */
    int64_t shape[WEFT_MAX_NDIM];     /**< their lengths */
    const void *data;                 /**< elements, row-major; read during the call */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_onnx_constant;

/** An input of f32 [N, C, H, W] that is fed images of bytes, 0 to 255, as sources give them: the graph
 * computes what the file expects. */
typedef struct weft_onnx_images {
    const char *name;            /**< of the input in the file */
    weft_preprocess_options how; /**< what the graph does with them; without draws, so nothing is random */
} weft_onnx_images;

/** Options of weft_onnx_graph(); NULL or zeroes: the defaults. */
typedef struct weft_onnx_options {
    /** Lengths of named axes. Where none is WEFT_BATCH, an axis without a length is the batch where it
     * is called "batch", is the first axis of an input that has no such one, or has the name of such a first
     * axis. Any other axis without a length is an error. */
    int n_axes;
    const weft_onnx_axis *axes;          /**< n_axes of them */
    int n_constants;                     /**< inputs that are constants */
    const weft_onnx_constant *constants; /**< n_constants of them */
    /** In a graph of WEFT_TRAIN norms keep the running statistics and do not update them, as for fine-tuning
     * with small batches. An error where no norm of the file has any. */
    bool batch_norm_eval;
    /** A new last layer, for other classes: the linear layer (Gemm, or MatMul and Add) that makes the value
     * of this name is replaced by one with `head_length` results and fresh parameters, which keep the names
     * of the old ones. NULL: the layer stays. */
    const char *head;
    int64_t head_length;              /**< results of the new layer, at least 1; 0 without `head` */
    int n_images;                     /**< inputs that take images of bytes */
    const weft_onnx_images *images;   /**< n_images of them */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_onnx_options;

/** Opens an ONNX file and reads all but the weights. `env` may be NULL. NULL on
 * failure. Close it with weft_onnx_close(). */
WEFT_API weft_onnx *weft_onnx_open(const char *path, const weft_env *env, weft_error *error);
/** Closes it; models made of it stay. NULL is fine. */
WEFT_API void weft_onnx_close(weft_onnx *file);

/** Builds the file's graph as graph `name` of a model. In a graph of WEFT_TRAIN dropout drops, and BatchNorm
 * uses and updates the batch's statistics. Parameters get the initializers' names, so graphs of one file
 * share them. Inputs and outputs have the file's names, where '/' and ':' become '_'; one that is then equal
 * to another ends with a number. NULL on failure: the error names the node; the model is then to be freed. */
WEFT_API weft_graph *weft_onnx_graph(weft_onnx *file, weft_model *model, const char *name, weft_mode mode,
                                     const weft_onnx_options *options, weft_error *error);
/** The value that the file calls `name`, in the graph that was built last; NULL where it has none: it may
 * have become part of a constant, or be a node's second result that nothing in the file reads. */
WEFT_API weft_value *weft_onnx_value(const weft_onnx *file, const char *name);

/** What a user who trains should know of the file, of which a graph has been built: line `index`, from 0 on;
 * NULL past the last one. BatchNorm that PyTorch's exporter folded into other layers; equal vectors that it
 * stored once, which are parameters of their own again. */
WEFT_API const char *weft_onnx_note(const weft_onnx *file, int index);

/** Writes the initial values of the parameters of all graphs built so far as safetensors, in the types that
 * the file has them in, without holding them in memory. */
WEFT_API weft_status weft_onnx_weights(weft_onnx *file, const char *path, weft_error *error);

/** Options of weft_onnx_export(); NULL or zeroes: the defaults. */
typedef struct weft_onnx_export_options {
    /** A safetensors file that has the values instead of a store, by PyTorch's dotted names. f64, f16 and
     * bf16 become f32. */
    const char *weights;
    bool fixed_batch; /**< lengths are numbers, by the model's batch; else the file takes any batch */
    /** Values go to a file PATH.data beside PATH. That is so anyway where the model has more than 2 GB, the
     * most that an ONNX file can have. */
    bool external_data;
    /** random_normal and random_uniform become inputs, called by scope and op
     * ("generator.random_normal"); else a graph with one is an error, since no two runtimes draw the same
     * numbers. */
    bool random_inputs;
    const weft_env *env;              /**< memory and files; NULL: malloc and the operating system's */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_onnx_export_options;

/** Writes a graph that trains nothing, with the values of a store, as an ONNX file of opset 21 (ONNX 1.16):
 * onnxruntime 1.32 runs it. It is the graph as it was built, before any pass
 * of the compiler and in its own types. Inputs and outputs keep their names, and an axis that is the batch
 * is called "batch"; parameters have PyTorch's dotted names, nodes those of scope and operator. One tensor
 * at a time is in memory. `store` is NULL where options have a file of weights. WEFT_UNSUPPORTED: an op has
 * no counterpart; the error names it, its scope and why. */
WEFT_API weft_status weft_onnx_export(const weft_graph *graph, const weft_store *store, const char *path,
                                      const weft_onnx_export_options *options, weft_error *error);

#ifdef __cplusplus
}
#endif
#endif
