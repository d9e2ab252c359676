/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bsd/string.h>

#define FILE_MAX    (4u << 20) /* bytes; a configuration of 256 jobs of 256 sources fits */
#define PATH_BYTES  512
#define WRITE_BYTES 4096u /* of a write(2), so that tests can make it fail in the middle */

/* The error of a descriptor that open() returned; 0 for a regular file. */
static int
objection(int fd)
{
	struct stat about;

	/* Sockets can't even be opened. */
	if (fd < 0)
		return errno == ENXIO ? EINVAL : errno;
	if (fstat(fd, &about) < 0)
		return errno;
	if (S_ISREG(about.st_mode))
		return 0;
	return S_ISDIR(about.st_mode) ? EISDIR : EINVAL;
}

int
ctrl_open_regular(const char *path, const char **why)
{
	/* With O_NOCTTY, a terminal does not become the controlling one. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int wrong = objection(fd);

	if (wrong == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	*why = wrong == EINVAL ? "it is no regular file" : strerror(wrong);
	errno = wrong;
	return -1;
}

char *
ctrl_read_file(const char *path, size_t *length, const char **why)
{
	int fd = ctrl_open_regular(path, why), wrong;
	ssize_t got = 1;
	char *text;

	if (fd < 0)
		return NULL;
	text = malloc(FILE_MAX + 1);
	for (*length = 0; text != NULL && got > 0 && *length <= FILE_MAX; *length += (size_t)got) {
		got = read(fd, text + *length, FILE_MAX + 1 - *length);
		if (got < 0)
			break;
	}
	wrong = text == NULL ? ENOMEM : got < 0 ? errno : *length > FILE_MAX ? EFBIG : 0;
	close(fd);
	if (wrong == 0) {
		text[*length] = '\0';
		return text;
	}
	free(text);
	*why = strerror(wrong);
	errno = wrong;
	return NULL;
}

/* -- locks */

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

/* The owner removes the lock's file, so a process may lock a file that was removed after it opened
 * it, while others make a new one. Hence the check that the locked file is the one at the path. */
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

/* -- replacing */

void (*ctrl_replace_step)(const char *call);

static void
step(const char *call)
{
	if (ctrl_replace_step != NULL)
		ctrl_replace_step(call);
}

static int
write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		size_t part = length < WRITE_BYTES ? length : WRITE_BYTES;
		ssize_t done;

		step("write");
		done = write(fd, text, part);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		text += done;
		length -= (size_t)done;
	}
	return 0;
}

static int
write_beside(const char *path, const char *text, size_t length)
{
	int fd, rc;

	step("open");
	/* Without O_NONBLOCK, a FIFO in this place would block the switch. */
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, text, length);
	step("fsync");
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	step("close");
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

/* The new name is in the folder, which must reach the disk, too. */
static int
sync_folder(const char *path)
{
	char folder[PATH_BYTES];
	int fd, rc = 0;

	strlcpy(folder, path, sizeof(folder));
	folder[strrchr(folder, '/') == folder ? 1 : strrchr(folder, '/') - folder] = '\0';
	step("open folder");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	step("fsync folder");
	if (fsync(fd) < 0 && errno != EINVAL) /* EINVAL: this file system has nothing to sync */
		rc = -errno;
	step("close folder");
	close(fd);
	return rc;
}

int
ctrl_replace_file(const char *path, const char *text, size_t length)
{
	char beside[PATH_BYTES];
	int rc;

	if (strchr(path, '/') == NULL ||
		(size_t)snprintf(beside, sizeof(beside), "%s.new", path) >= sizeof(beside))
		return -EINVAL;
	rc = write_beside(beside, text, length);
	if (rc == 0) {
		step("rename");
		rc = rename(beside, path) < 0 ? -errno : 0;
	}
	if (rc < 0) {
		unlink(beside);
		return rc;
	}
	return sync_folder(path);
}
