/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir-mpi-KIND.so: the symbols, and where their calls go. calls.h has the design.
 *
 * A call goes to the hooks, or on to the *next* library, which has the symbol after this one: MPI's, or that of another
 * tool.
 */
#include "apps/mpi/pmpi/calls.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED      __attribute__((visibility("default")))
#define OFFLOAD       "/libweir-mpi-" WEIR_MPI_KIND "-offload.so"
#define VERSION_BYTES 8192 /* MPICH's MPI_MAX_LIBRARY_VERSION_STRING; Open MPI's is 256 */

/* What MPI_Get_library_version begins with, or has in it, and the library for it. Those for "mpich" have MPICH's ABI. */
static const struct {
	const char *text, *kind;
} versions[] = {
	{"Open MPI", "openmpi"},
	{"MPICH", "mpich"},
	{"MVAPICH", "mpich"},
	{"Intel(R) MPI", "mpich"},
};

/* Says that a library of this kind is here: of two that are preloaded, the wrong one is silent. */
extern const char weir_mpi_preload[] __attribute__((visibility("protected")));
const char weir_mpi_preload[] = WEIR_MPI_KIND;

static struct weir_mpi_calls mpi, pmpi; /* the next MPI_X and PMPI_X */
static const struct weir_mpi_calls *hooks; /* NULL: MPI does everything */
static pthread_once_t found = PTHREAD_ONCE_INIT;

/*
 * The library that has the next symbols. Usually RTLD_NEXT; where MPI came with a library that was loaded at run
 * time, as in Python, that library's handle. The offload library needs MPI's symbols as well, so they become global.
 */
static void *
next_library(void)
{
	void *handle, *function;
	Dl_info own, its;

	if (dlsym(RTLD_NEXT, "PMPI_Init") != NULL || dladdr(weir_mpi_preload, &own) == 0)
		return RTLD_NEXT;
	for (struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next) {
		handle = map->l_name[0] != '\0' ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD)
						: NULL;
		if (handle == NULL)
			continue;
		function = dlsym(handle, "PMPI_Init");
		dlclose(handle);
		if (function == NULL || dladdr(function, &its) == 0 ||
			its.dli_fbase == own.dli_fbase)
			continue;
		handle = dlopen(its.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
		if (handle != NULL)
			return handle;
	}
	return RTLD_NEXT;
}

/* Only the first process of a program speaks, where its launcher numbers the processes. */
static bool
speaks(void)
{
	static const char *const numbers[] = {
		"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
	const char *number;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		number = getenv(numbers[i]);
		if (number != NULL)
			return strcmp(number, "0") == 0;
	}
	return true;
}

/* Is the MPI library of the kind that the offload library is built for? */
static bool
right_mpi(void *next)
{
	int (*get)(char *, int *) =
		(int (*)(char *, int *))(uintptr_t)dlsym(next, "PMPI_Get_library_version");
	char version[VERSION_BYTES] = "an MPI without a version";
	const char *kind = NULL;
	int length;

	if (get != NULL)
		get(version, &length);
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]) && kind == NULL; i++)
		if (strstr(version, versions[i].text) != NULL)
			kind = versions[i].kind;
	if (kind != NULL && strcmp(kind, WEIR_MPI_KIND) == 0)
		return true;
	if (!speaks() || dlsym(RTLD_DEFAULT, "weir_mpi_preload") != weir_mpi_preload ||
		dlsym(RTLD_NEXT, "weir_mpi_preload") != NULL)
		return false;
	version[strcspn(version, "\n,")] = '\0';
	fprintf(stderr,
		"weir: libweir-mpi-" WEIR_MPI_KIND ".so is not for this program's MPI (%s): ",
		version);
	if (kind != NULL)
		fprintf(stderr, "preload libweir-mpi-%s.so; ", kind);
	fprintf(stderr, "MPI does everything\n");
	return false;
}

static void
find(void)
{
	void *next = next_library(), *library = NULL;
	char path[PATH_MAX + sizeof(OFFLOAD)];
	struct link_map *own;
	Dl_info info;

#define WEIR_X(name, parameters, arguments)                                                        \
	mpi.name = (int(*) parameters)(uintptr_t)dlsym(next, "MPI_" #name);                        \
	pmpi.name = (int(*) parameters)(uintptr_t)dlsym(next, "PMPI_" #name);
	WEIR_MPI_CALLS
#undef WEIR_X
	if (!right_mpi(next))
		return;
	/* Without $ORIGIN in the path: UCX replaces dlopen(), and is the caller then. */
	if (dladdr1(weir_mpi_preload, &info, (void **)&own, RTLD_DL_LINKMAP) != 0 &&
		dlinfo(own, RTLD_DI_ORIGIN, path) == 0)
		library = dlopen(strcat(path, OFFLOAD), RTLD_NOW);
	if (library != NULL)
		hooks = dlsym(library, "weir_mpi_hooks");
	if (hooks == NULL && speaks())
		fprintf(stderr, "weir: %s: MPI does everything\n", dlerror());
}

/* An older MPI has no such function, but the program has found the one here. */
static void __attribute__((noreturn)) missing(const char *symbol)
{
	fprintf(stderr, "weir: this program's MPI has no %s\n", symbol);
	abort();
}

#define WEIR_SYMBOL(symbol, next, name, parameters, arguments)                                     \
	EXPORTED int symbol parameters;                                                            \
	int symbol parameters                                                                      \
	{                                                                                          \
		int result = WEIR_MPI_NEXT;                                                        \
                                                                                                   \
		pthread_once(&found, find);                                                        \
		if (hooks != NULL)                                                                 \
			result = hooks->name arguments;                                            \
		if (result != WEIR_MPI_NEXT)                                                       \
			return result;                                                             \
		if (next.name == NULL)                                                             \
			missing(#symbol);                                                          \
		return next.name arguments;                                                        \
	}
#define WEIR_X(name, parameters, arguments)                                                        \
	WEIR_SYMBOL(MPI_##name, mpi, name, parameters, arguments)                                  \
	WEIR_SYMBOL(PMPI_##name, pmpi, name, parameters, arguments)
WEIR_MPI_CALLS
