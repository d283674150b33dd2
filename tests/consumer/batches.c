/* batches.c - a program that links libweft_train: it writes ten numbers as an IDX file and reads them back
 * in two batches. */
#include "consumer.h"

int main(void) {
    const unsigned char file[] = {0, 0, 8, 1, 0, 0, 0, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    weft_error error = {WEFT_OK, ""};
    FILE *f = fopen("ten.idx", "wb");
    if (!f || fwrite(file, 1, sizeof file, f) != sizeof file || fclose(f))
        return puts("ten.idx cannot be written"), 1;
    weft_source *source = weft_source_open("ten.idx", NULL, NULL, &error);
    weft_loader_options how = {.batch = 5};
    weft_loader *loader =
        source ? weft_loader_new(1, (const weft_source *[]){source}, &how, NULL, &error) : NULL;
    const void *data[1];
    int64_t rows, sum = 0;
    while (loader && weft_loader_next(loader, data, &rows, &error))
        for (int64_t i = 0; i < rows; i++) sum += ((const unsigned char *)data[0])[i];
    printf("weft %s: the sum is %d %s\n", weft_version(), (int)sum, error.text);
    weft_loader_free(loader);
    weft_source_free(source);
    return error.status || sum != 45 || !own_names();
}
