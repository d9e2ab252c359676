/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guest's server, and its first process: a connection to TCP port 1 is stdin and stdout of a shell. One to port 2
 * is passed on to a Unix socket, whose path is its first line, until either side ends.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int
listen_on(uint16_t port)
{
	const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 64) < 0)
		perror("agent");
	return fd;
}

static int
pass(int from, int to)
{
	char data[65536];
	ssize_t length = read(from, data, sizeof(data)), done;

	for (ssize_t sent = 0; sent < length; sent += done) {
		done = write(to, data + sent, (size_t)(length - sent));
		if (done <= 0)
			return 0;
	}
	return length > 0;
}

static void
relay(int client)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct pollfd p[2] = {{.fd = client, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
	char c;

	for (size_t i = 0;
		read(client, &c, 1) == 1 && c != '\n' && i + 1 < sizeof(address.sun_path); i++)
		address.sun_path[i] = c;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return;
	while (poll(p, 2, -1) > 0) {
		if (p[0].revents != 0 && !pass(client, fd)) {
			shutdown(fd, SHUT_WR);
			p[0].fd = -1;
		}
		if (p[1].revents != 0 && !pass(fd, client))
			return;
	}
}

static void
serve(int client, int port)
{
	if (port == 2) {
		relay(client);
		_exit(0);
	}
	dup2(client, STDIN_FILENO);
	dup2(client, STDOUT_FILENO);
	dup2(client, STDERR_FILENO);
	close(client);
	execl("/bin/sh", "sh", (char *)NULL);
	_exit(127);
}

int
main(void)
{
	struct pollfd p[2] = {
		{.fd = listen_on(1), .events = POLLIN}, {.fd = listen_on(2), .events = POLLIN}};

	signal(SIGPIPE, SIG_DFL);
	puts("guest: ready");
	fflush(stdout);
	for (;;) {
		poll(p, 2, 1000);
		for (int i = 0; i < 2; i++)
			if ((p[i].revents & POLLIN) != 0) {
				int client = accept(p[i].fd, NULL, NULL);

				if (client >= 0 && fork() == 0)
					serve(client, i + 1);
				close(client);
			}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}
