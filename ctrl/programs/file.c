/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/programs/file.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bsd/string.h>

#include "ctrl/config/schema.h"
#include "ctrl/jobs/running.h"
#include "ctrl/programs/child.h"
#include "ppe/load.h"
#include "ppe/program_fast.h"

#define FILE_MAX (256L << 20)
#define POLL_US  2000

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

static int __attribute__((format(printf, 2, 3)))
refuse(char reason[CTRL_PROGRAM_REASON], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, CTRL_PROGRAM_REASON, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

/* -- which files */

static int
check_owner(const struct stat *stat, const char *path, char *reason)
{
	if (stat->st_uid != 0 && stat->st_uid != geteuid())
		return refuse(reason,
			"%s belongs to user %u: it must belong to root or to the switch's user, "
			"which runs its code",
			path, stat->st_uid);
	if ((stat->st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return refuse(reason, "%s may be written by %s: chmod go-w %s", path,
			(stat->st_mode & S_IWOTH) != 0 ? "all users" : "its group", path);
	return 0;
}

int
ctrl_program_file_check(
	const char *directory, const char *name, bool runs, char reason[CTRL_PROGRAM_REASON])
{
	char path[CTRL_FILE_BYTES + CTRL_PROGRAM_BYTES];
	struct stat stat;
	int folder, file;

	if (!ctrl_is_name(name))
		return refuse(reason,
			"\"%.64s\" is not the name of a file in %s: it has letters, digits and "
			". _ - only",
			name, directory);
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	folder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || fstat(folder, &stat) < 0) {
		refuse(reason, "%s: %s", directory, strerror(errno));
		close(folder);
		return -EINVAL;
	}
	if (check_owner(&stat, directory, reason) < 0) {
		close(folder);
		return -EINVAL;
	}
	file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		refuse(reason, "%s: %s", path,
			errno == ELOOP ? "it is a symbolic link" : strerror(errno));
	close(folder);
	if (file < 0)
		return -EINVAL;
	if (fstat(file, &stat) < 0 || !S_ISREG(stat.st_mode))
		refuse(reason, "%s is no regular file", path);
	else if (check_owner(&stat, path, reason) == 0 && (!runs || (stat.st_mode & S_IXUSR) != 0))
		return file;
	else if (runs && (stat.st_mode & S_IXUSR) == 0)
		refuse(reason, "%s is not executable", path);
	close(file);
	return -EINVAL;
}

/* Copy a file to a descriptor that can't change. Returns it, or -EINVAL. */
static int
copy(int from, const char *name, char *reason)
{
	int to = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ssize_t done = -1;
	off_t bytes = 0;

	while (to >= 0 && bytes <= FILE_MAX && (done = sendfile(to, from, NULL, 1 << 20)) > 0)
		bytes += done;
	if (done == 0 &&
		fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ==
			0)
		return to;
	refuse(reason, "it cannot be read: %s", bytes > FILE_MAX ? "too large" : strerror(errno));
	if (to >= 0)
		close(to);
	return -EINVAL;
}

/* The dynamic linker says of files of other machines that there is no such file. */
static int
check_elf(int fd, char *reason)
{
	Elf64_Ehdr head;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head) ||
		memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
		return refuse(reason, "it is no shared object: it does not begin as an ELF file");
	if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != MACHINE)
		return refuse(reason, "it is for another machine (ELF %s, machine %u)",
			head.e_ident[EI_CLASS] == ELFCLASS64 ? "64" : "32", head.e_machine);
	if (head.e_type != ET_DYN)
		return refuse(reason, "it is an ELF file, but no shared object: link with -shared");
	return 0;
}

/* -- loading, in the child and in the switch */

static int
check_contract(const struct ppe_contract *its, char *reason)
{
	static const struct ppe_contract own = PPE_CONTRACT;

	if (its->version != own.version || its->dpdk != own.dpdk)
		return refuse(reason,
			"it was built for version %u of the contract of programs and DPDK "
			"%u.%02u; this switch has version %u and DPDK %u.%02u: build it again with "
			"the headers of this Weir",
			its->version, its->dpdk / 100, its->dpdk % 100, own.version, own.dpdk / 100,
			own.dpdk % 100);
	if (memcmp(its, &own, sizeof(own)) != 0)
		return refuse(reason,
			"it was built with other headers of version %u of the contract of "
			"programs (its sizes are %u %u %u, this switch's %u %u %u): build it again "
			"with the headers of this Weir",
			own.version, its->worker_bytes, its->thread_bytes, its->program_bytes,
			own.worker_bytes, own.thread_bytes, own.program_bytes);
	return 0;
}

static int
load(struct ctrl_program_file *file, const char *path)
{
	const struct ppe_program_file *object;
	const char *why;

	file->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (file->handle == NULL) {
		why = dlerror();
		if (strncmp(why, path, strlen(path)) == 0)
			why += strlen(path) + strspn(why + strlen(path), ": ");
		return refuse(file->reason, "it cannot be loaded: %s", why);
	}
	object = dlsym(file->handle, PPE_PROGRAM_SYMBOL);
	if (object == NULL)
		return refuse(file->reason,
			"it has no symbol " PPE_PROGRAM_SYMBOL
			": does its source end in PPE_PROGRAM_FILE(...)?");
	if (check_contract(&object->contract, file->reason) < 0)
		return -EINVAL;
	why = ppe_program_check(object->program);
	if (why != NULL)
		return refuse(file->reason, "%s", why);
	file->program = object->program;
	return 0;
}

int
ctrl_program_probe(const char *path)
{
	static const struct rlimit none;
	struct ctrl_program_file file = {0};
	size_t length;
	int report = dup(STDOUT_FILENO);

	setrlimit(RLIMIT_CORE, &none);
	dup2(STDERR_FILENO, STDOUT_FILENO); /* a constructor may print */
	if (load(&file, path) == 0)
		return 0;
	length = strlen(file.reason);
	return write(report, file.reason, length) == (ssize_t)length ? 1 : 2;
}

/* -- the child */

static int
start_probe(struct ctrl_program_file *file)
{
	struct ctrl_child child = {.option = CTRL_CHILD_PROBE,
		.file = "/proc/self/fd/3",
		.environment = environ,
		.err = -1,
		.copy = file->copy};
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return refuse(file->reason, "a process that checks it: %s", strerror(errno));
	file->report = ends[0];
	child.out = ends[1];
	rc = ctrl_child_start(&child, &file->probe);
	close(ends[1]);
	if (rc == 0)
		return 0;
	file->probe = 0;
	return refuse(
		file->reason, "a process that checks it cannot be started: %s", strerror(-rc));
}

int
ctrl_program_open_begin(struct ctrl_program_file *file, const char *directory, const char *name)
{
	int from;

	*file = (struct ctrl_program_file){.copy = -1, .report = -1};
	strlcpy(file->name, name, sizeof(file->name));
	from = ctrl_program_file_check(directory, name, false, file->reason);
	if (from < 0)
		return -EINVAL;
	if (strlen(name) < 4 || strcmp(name + strlen(name) - 3, ".so") != 0)
		refuse(file->reason, "%s: the name of a program's file ends in .so", name);
	else if (check_elf(from, file->reason) == 0)
		file->copy = copy(from, name, file->reason);
	close(from);
	if (file->copy < 0)
		return -EINVAL;
	file->probe_ends = ctrl_monotonic() + CTRL_PROBE_S;
	return start_probe(file);
}

/* What the child has found. */
static int
judge(struct ctrl_program_file *file, int status)
{
	ssize_t length = 0;

	if (WIFSIGNALED(status))
		return refuse(file->reason,
			"loading it ends in %s: the file is damaged, or its constructor crashes",
			strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) == 0)
		return 0;
	length = read(file->report, file->reason, sizeof(file->reason) - 1);
	if (length <= 0)
		return refuse(file->reason, "the process that checks it ended with status %d",
			WEXITSTATUS(status));
	file->reason[length] = '\0';
	return -EINVAL;
}

/* A name that no other copy has while this one is open, and that debuggers can open. */
static struct ctrl_path
path_of(const struct ctrl_program_file *file)
{
	return ctrl_path("/proc/%d/fd/%d", (int)getpid(), file->copy);
}

int
ctrl_program_open_step(struct ctrl_program_file *file)
{
	int status, rc;
	pid_t ended = waitpid(file->probe, &status, WNOHANG);

	if (ended == 0 && ctrl_monotonic() < file->probe_ends)
		return -EAGAIN;
	if (ended == 0)
		return refuse(file->reason,
			"loading it takes longer than %d s: does its constructor wait?",
			CTRL_PROBE_S);
	file->probe = 0;
	rc = ended < 0
		? refuse(file->reason, "the process that checks it is lost: %s", strerror(errno))
		: judge(file, status);
	if (rc < 0)
		return rc;
	return load(file, path_of(file).text);
}

int
ctrl_program_open(struct ctrl_program_file *file, const char *directory, const char *name)
{
	int rc = ctrl_program_open_begin(file, directory, name);

	while (rc == 0 && (rc = ctrl_program_open_step(file)) == -EAGAIN) {
		usleep(POLL_US);
		rc = 0;
	}
	return rc;
}

void
ctrl_program_close(struct ctrl_program_file *file)
{
	if (file->probe > 0) {
		kill(file->probe, SIGKILL);
		waitpid(file->probe, NULL, 0);
	}
	if (file->report >= 0)
		close(file->report);
	if (file->handle != NULL) {
		dlclose(file->handle);
		/* An object that stays (-z nodelete) keeps its name from later ones. */
		if (dlopen(path_of(file).text, RTLD_NOLOAD | RTLD_LAZY) != NULL)
			file->copy = -1;
	}
	if (file->copy >= 0)
		close(file->copy);
	*file = (struct ctrl_program_file){.copy = -1, .report = -1};
}
