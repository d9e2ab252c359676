/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that a configuration names. */
#ifndef CTRL_REGULAR_H
#define CTRL_REGULAR_H

/*
 * Open a regular file to read. Never waits: a FIFO without a writer, a terminal or a device would hold
 * up the start, or at a reload the control thread for ever, and is refused. Returns the descriptor;
 * or -1 with errno (EISDIR, or EINVAL: it is no regular file either) and *why, a text that is valid until the next call.
 */
int ctrl_open_regular(const char *path, const char **why);

#endif
