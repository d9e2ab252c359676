/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/switch/output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctrl/jobs/running.h" /* ctrl_monotonic */

bool
output_begin(struct output *output)
{
	output->text = NULL;
	output->length = 0;
	output->to = open_memstream(&output->text, &output->length);
	return output->to != NULL;
}

/* Write what fits. A pipe that polls writable has room for PIPE_BUF bytes. */
static ssize_t
put_some(int fd, const char *text, size_t length)
{
	size_t some = length < PIPE_BUF ? length : PIPE_BUF;
	ssize_t done;

	do {
		done = send(fd, text, some, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (done < 0 && errno == ENOTSOCK)
			done = write(fd, text, some);
	} while (done < 0 && errno == EINTR);
	return done;
}

static bool
put(int fd, const char *text, size_t length, int wait_ms)
{
	double deadline = ctrl_monotonic() + wait_ms / 1e3;

	while (length > 0) {
		struct pollfd p = {fd, POLLOUT, 0};
		double left = deadline - ctrl_monotonic();
		ssize_t done;

		if (poll(&p, 1, left > 0 ? (int)(left * 1e3) : 0) != 1)
			return false;
		done = put_some(fd, text, length);
		if (done < 0 && (errno != EAGAIN || left <= 0))
			return false;
		text += done > 0 ? done : 0;
		length -= done > 0 ? (size_t)done : 0;
	}
	return true;
}

bool
output_end(struct output *output, int fd, int wait_ms)
{
	static bool torn; /* the last text was cut off, perhaps within a line */
	bool whole = false;

	if (output->to != NULL && fclose(output->to) == 0)
		whole = (!torn || put(fd, "\n", 1, wait_ms)) &&
			put(fd, output->text, output->length, wait_ms);
	torn = !whole;
	free(output->text);
	return whole;
}
