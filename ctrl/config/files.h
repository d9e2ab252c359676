/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of the switch: read without waiting, locked, and replaced atomically. */
#ifndef CTRL_CONFIG_FILES_H
#define CTRL_CONFIG_FILES_H

#include <stddef.h>

/*
 * Open a regular file to read. Never waits: a FIFO, a terminal or a device is refused, because it
 * could block the start, or at a reload the control thread. Returns the descriptor; or -1 with
 * errno (EISDIR, or EINVAL: no regular file) and *why, a text that is valid until the next call.
 */
int ctrl_open_regular(const char *path, const char **why);

/* Read a regular file of at most 4 MiB. Returns its text, terminated by '\0', which the caller
 * frees; or NULL with errno and *why as above. */
char *ctrl_read_file(const char *path, size_t *length, const char **why);

/*
 * Lock a path. The lock is on the file path.lock beside it, so that the path itself may be
 * replaced. The kernel releases the lock when its owner ends, however it ends. Returns a descriptor
 * for ctrl_unlock; -EWOULDBLOCK: another process has the lock; or -errno.
 */
int ctrl_lock(const char *path);

/* Release the lock and remove its file. lock: negative is fine. */
void ctrl_unlock(const char *path, int lock);

/*
 * Replace the contents of `path` by `length` bytes, durable, readable by the owner alone (mode
 * 0600). At any moment and after any crash, readers find either the old contents or the new ones as
 * a whole: write to path.new, fsync, rename, fsync of the folder (Pillai et al., "All File Systems
 * Are Not Created Equal", OSDI 2014). 0, or -errno and the file is unchanged; after an error of the
 * folder's fsync it is new but may not be durable. Waits for the disk.
 */
int ctrl_replace_file(const char *path, const char *text, size_t length);

/* For tests: called with the name of each system call of ctrl_replace_file before it. NULL:
 * nothing. */
extern void (*ctrl_replace_step)(const char *call);

#endif
