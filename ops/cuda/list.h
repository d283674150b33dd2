/* list.h - the kernels for GPUs, best first within an op. RUN(name): the row cuda_NAME in some .c of this folder and
 * cuda_NAME_run in a .cu; OPEN(name): also cuda_NAME_open and cuda_NAME_close, for what a session builds once. */
