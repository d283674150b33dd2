/* programs.h - runs graphtool and weft-zoo as a user does: shell commands in a folder of their own, which is
 * removed when the test ends, and the files that they write there. */
#ifndef WEFT_TEST_PROGRAMS_H
#define WEFT_TEST_PROGRAMS_H

#include "support/test.h"

#include <jansson.h>

/* Runs a shell command in the folder; stdout goes to the file `out`, stderr to `err`. The exit status; 256
 * and above: ended by a signal. */
int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether graphtool starts under `ulimit -v`. Below some size its libraries are not loaded, and at some sizes
 * above oneDNN 3 ends the process while it is. */
bool starts_with(int kib);
/* The smallest such size, within 2%: libraries have other sizes elsewhere. */
int starting_kib(void);
/* Checks that a command ended with this status; otherwise shows its stderr. */
bool ends(int status, int wanted);
/* Checks for exit status 2, one line on stderr that contains `part`, and nothing on stdout. */
void refuses(int status, const char *part);

/* ---- files of the folder ---- */
bool exists(const char *name);
/* The whole file, with a final 0; the caller frees it. NULL: there is none. */
char *read_all(const char *name);
json_t *json_out(const char *name);
/* The absolute path of a file in the folder, for what a test writes there itself. */
void path_of(const char *name, char path[300]);

/* ---- inputs of commands ---- */
/* Writes a model of the zoo as NAME.bin. */
bool make_model(const char *name);
/* Writes fed.bin: a classifier of the data below whose logits are scaled by input tau f32[]. Graphs train and
 * val have input k i32[2], too, and give tau and the mean of k as outputs; graph predict has tau alone. */
bool make_fed(void);
extern const char *const zoo[];
enum { ZOO = 8, SAMPLES = 70 };
/* Writes a .npy file with this element type ("<f8") and shape ("(70,)"). */
void put_npy(const char *name, const char *descr, const char *shape, const void *data, size_t bytes);
/* Writes 28x28 images whose brightness is their label, in IDX and .npy. */
void make_data(void);
#define DATA "--data image=images.idx --data label=labels.npy"

#endif
