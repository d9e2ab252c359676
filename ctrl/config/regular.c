/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a descriptor, or the error of open(), says against it; 0: nothing. */
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
	/* No terminal becomes ours by being opened. */
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
