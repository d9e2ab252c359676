/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path that belongs to one process at a time: a lock on the file path.lock beside it. What is at the
 * path itself may be replaced meanwhile. The kernel gives the lock back when its owner ends, however it
 * ends, so the file that a kill -9 leaves holds nobody up.
 */
#ifndef CTRL_LOCK_H
#define CTRL_LOCK_H

#include <stdbool.h>

/* Make a path this process's. A descriptor for ctrl_unlock; or -EWOULDBLOCK: it is another's; or -errno. */
int ctrl_lock(const char *path);

/* Give it back, and remove the lock's file. Negative: nothing is done. */
void ctrl_unlock(const char *path, int lock);

#endif
