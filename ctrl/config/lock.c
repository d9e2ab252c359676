/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 512

static bool
name_of(const char *path, char name[PATH_BYTES])
{
	return snprintf(name, PATH_BYTES, "%s.lock", path) < PATH_BYTES;
}

static bool
is_at(int fd, const char *name)
{
	struct stat mine, seen;

	return fstat(fd, &mine) == 0 && lstat(name, &seen) == 0 && mine.st_ino == seen.st_ino &&
		mine.st_dev == seen.st_dev;
}

/*
 * The file goes with its owner: one may get the lock of a file that has been removed since it was
 * opened, while others make a new one. So whoever gets a lock looks whether it is that of the file
 * which the others see.
 */
int
ctrl_lock(const char *path)
{
	char name[PATH_BYTES];

	if (!name_of(path, name))
		return -ENAMETOOLONG;
	for (;;) {
		int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		int rc;

		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			rc = -errno;
			close(fd);
			return rc;
		}
		if (is_at(fd, name))
			return fd;
		close(fd);
	}
}

void
ctrl_unlock(const char *path, int lock)
{
	char name[PATH_BYTES];

	if (lock < 0)
		return;
	if (name_of(path, name) && is_at(lock, name))
		unlink(name);
	close(lock);
}
