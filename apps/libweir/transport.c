/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transport a process uses; loads those that are not part of the library. */
#include "apps/libweir/transport.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/libweir/weir.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static char chosen[256]; /* by weir_use_transport(); "": by the environment */
static const struct weir_transport_ops *loaded; /* the last one; it stays loaded */
static char loaded_from[256];

int
weir_use_transport(const char *name)
{
	size_t length = name != NULL ? strlen(name) : 0;

	if (length >= sizeof(chosen))
		return -EINVAL;
	pthread_mutex_lock(&lock);
	memcpy(chosen, length != 0 ? name : "", length + 1);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Load the transport of this name or path. Under the lock. 0 or -errno. */
static int
load(const char *name, char *text, size_t size)
{
	const struct weir_transport_ops *const *found;
	const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
	char file[sizeof(chosen) + 32], why[256] = "";
	void *library = NULL;

	if (strchr(name, '/') == NULL) { /* libweir's own have the number of its ABI */
		snprintf(file, sizeof(file), "libweir-%s.so.0", name);
		library = dlopen(file, flags);
		if (library == NULL)
			snprintf(why, sizeof(why), "%s; ", dlerror());
		snprintf(file, sizeof(file), "libweir-%s.so", name);
	} else
		snprintf(file, sizeof(file), "%s", name);
	if (library == NULL)
		library = dlopen(file, flags);
	if (library == NULL) {
		snprintf(text, size,
			"the transport \"%s\" (WEIR_TRANSPORT) cannot be loaded: %s%s; known are "
			"\"udp\", and \"dpdk\" where libweir-dpdk is installed",
			name, why, dlerror());
		return -ENOENT;
	}
	found = dlsym(library, WEIR_TRANSPORT_SYMBOL);
	if (found == NULL || (*found)->version != WEIR_TRANSPORT_VERSION) {
		if (found == NULL)
			snprintf(text, size, "%s is not a transport: it has no symbol %s", file,
				WEIR_TRANSPORT_SYMBOL);
		else
			snprintf(text, size,
				"%s is a transport of version %u, and this libweir needs version "
				"%u: build it with the weir-transport.h of this libweir",
				file, (*found)->version, WEIR_TRANSPORT_VERSION);
		dlclose(library);
		return -ENOEXEC;
	}
	loaded = *found;
	snprintf(loaded_from, sizeof(loaded_from), "%s", name);
	return 0;
}

const struct weir_transport_ops *
weir_transport_find(int *code, char *text, size_t size)
{
	const struct weir_transport_ops *ops = &weir_transport_udp;
	const char *name;

	*code = 0;
	pthread_mutex_lock(&lock);
	name = chosen[0] != '\0' ? chosen : secure_getenv("WEIR_TRANSPORT");
	if (name != NULL && name[0] != '\0' && strcmp(name, "udp") != 0) {
		if (strlen(name) >= sizeof(loaded_from)) {
			snprintf(text, size, "WEIR_TRANSPORT is longer than %zu characters",
				sizeof(loaded_from) - 1);
			*code = -EINVAL;
		} else if (loaded == NULL || strcmp(loaded_from, name) != 0) {
			*code = load(name, text, size);
		}
		ops = *code == 0 ? loaded : NULL;
	}
	pthread_mutex_unlock(&lock);
	return ops;
}
