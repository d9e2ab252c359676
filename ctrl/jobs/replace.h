/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Write a file so that whoever reads it, at any moment and after any crash, finds the old contents
 * or the new ones whole: written beside it, fsync, rename, fsync of the folder (the reasons:
 * Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014).
 */
#ifndef CTRL_REPLACE_H
#define CTRL_REPLACE_H

#include <stddef.h>

/*
 * Contents of `path` are `length` bytes of text now, durable, for its owner alone (mode 0600). 0, or
 * -errno and the file is as it was, but for -EIO and the like from the folder's fsync: then it is new
 * but may not be durable. path.new is used beside it. Waits for the disk.
 */
int ctrl_replace_file(const char *path, const char *text, size_t length);

/* For tests: called before each system call of the above, with its name. NULL: nothing. */
extern void (*ctrl_replace_step)(const char *call);

#endif
