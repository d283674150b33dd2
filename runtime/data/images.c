/* images.c - folders of images: not read by this build. */
#include "runtime/data/form.h"

static weft_status open_images(const form_request *r, weft_source *into, weft_error *error) {
    (void)into;
    return kit_fail(error, WEFT_UNSUPPORTED, "%.600s: folders of images are not read by this build", r->path);
}

static void close_images(void *context) {
    (void)context;
}

const form form_images = {"images", open_images, close_images, NULL};
