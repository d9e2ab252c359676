/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bsd/string.h>

#define PATH_BYTES  512
#define WRITE_BYTES 4096u /* of a write(2): so that tests can fail in the middle */

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
	/* A FIFO that somebody has put there would be waited for. */
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

/* The new name itself is in the folder, which has to reach the disk, too. */
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
	if (fsync(fd) < 0 && errno != EINVAL) /* file systems that can't need not */
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
