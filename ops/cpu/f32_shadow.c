/* f32_shadow.c - see f32_shadow.h. Values that are f32 already, or integers, are copied as they are; each
 * reduced value gets a dense f32 twin with a place in the workspace. */
#include "ops/cpu/f32_shadow.h"

#include <string.h>

/* The f32 twin of v: channels-last where v is, else row-major, whatever strides v has as a view. *bytes is
 * the workspace used so far; a value that is cast gets the place *at and moves *bytes past itself. */
static void shadow_value(const weft_value *v, weft_value *wide, bool *casts, size_t *at, size_t *bytes) {
    *wide = *v;
    *casts = dtype_is_reduced(v->type.dtype);
    if (!*casts) return;
    wide->type.dtype = WEFT_F32;
    wide->has_layout = true;
    if (lies_row_major(v) || !lies_channels_last(v))
        stride_row_major(&v->type, wide->stride);
    else
        stride_channels_last(&v->type, wide->stride);
    *at = *bytes;
    *bytes += size_align(type_bytes(&wide->type), MEM_ALIGN);
}

/* The result is cast last, so its place is the end of the workspace that is counted here. */
bool f32_shadow_of(const weft_node *n, f32_shadow *w) {
    bool is_any = false;
    if (n->n_in > F32_SHADOW_MAX_IN || n->n_out != 1) return false;
    memset(w, 0, sizeof *w);
    w->node = *n;
    w->node.in = w->list;
    w->node.out = &w->out;
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i]) continue;
        shadow_value(n->in[i], &w->in[i], &w->casts[i], &w->at[i], &w->bytes);
        w->list[i] = &w->in[i];
        is_any |= w->casts[i];
    }
    shadow_value(&n->out[0], &w->out, &w->casts[F32_SHADOW_MAX_IN], &w->at[F32_SHADOW_MAX_IN], &w->bytes);
    return is_any || w->casts[F32_SHADOW_MAX_IN];
}
