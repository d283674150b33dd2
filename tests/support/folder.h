/* folder.h - folders and files that tests leave: removing and comparing them. */
#ifndef WEFT_TEST_FOLDER_H
#define WEFT_TEST_FOLDER_H

#include <stdbool.h>

/* Removes a file, or a folder with all that is in it; fine where there is none. */
void remove_tree(const char *path);
/* Whether both files are there, are not empty and below 64 KiB, and have the same bytes. */
bool same_files(const char *a, const char *b);

#endif
