/* SPDX-License-Identifier: BSD-3-Clause */
#include "pktbuf/memif.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_log.h>

#ifdef __x86_64__
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOB_DAT  R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOB_DAT  R_AARCH64_GLOB_DAT
#endif

/* Whom munmap() waits for. Of the interrupt thread. */
static struct guard {
	void (*wait)(void *arg); /* NULL: nobody */
	void *arg;
} guard;

/* In place of the driver's munmap(): bursts that begin now find the port not connected. */
static int
unmap(void *memory, size_t length)
{
	if (rte_thread_is_intr() && guard.wait != NULL)
		guard.wait(guard.arg);
	return munmap(memory, length);
}

/* Tables of a loaded object (System V ABI, "Dynamic Linking"). */
struct tables {
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * rela[2];
	size_t bytes[2];
};

static struct tables
tables_of(const struct dl_phdr_info *object)
{
	struct tables t = {0};
	const ElfW(Dyn) *d = NULL;

	for (unsigned int i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
	for (; d != NULL && d->d_tag != DT_NULL; d++) {
		const void *at = (const void *)d->d_un.d_ptr;

		switch (d->d_tag) {
		case DT_SYMTAB: t.symbols = at; break;
		case DT_STRTAB: t.names = at; break;
		case DT_JMPREL: t.rela[0] = at; break;
		case DT_PLTRELSZ: t.bytes[0] = d->d_un.d_val; break;
		case DT_RELA: t.rela[1] = at; break;
		case DT_RELASZ: t.bytes[1] = d->d_un.d_val; break;
		default: break;
		}
	}
	return t;
}

/* The linker may have made the slot's page read-only (RELRO). */
static int
replace(void **slot)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *begin = (void *)((uintptr_t)slot & ~(page - 1));

	if (mprotect(begin, page, PROT_READ | PROT_WRITE) < 0)
		return -errno;
	*slot = (void *)(uintptr_t)unmap;
	return 0;
}

/* Of the driver: replace munmap() where it calls it. Else 0. */
static int
visit(struct dl_phdr_info *object, size_t size, void *result)
{
	struct tables t;

	(void)size;
	if (strstr(object->dlpi_name, "librte_" PKTBUF_MEMIF) == NULL)
		return 0;
	t = tables_of(object);
	for (unsigned int k = 0; k < 2; k++)
		for (size_t i = 0; i < t.bytes[k] / sizeof(*t.rela[k]); i++) {
			const ElfW(Rela) *r = &t.rela[k][i];
			uint32_t type = ELF64_R_TYPE(r->r_info);

			if ((type == JUMP_SLOT || type == GLOB_DAT) &&
				strcmp(t.names + t.symbols[ELF64_R_SYM(r->r_info)].st_name,
					"munmap") == 0)
				*(int *)result =
					replace((void **)(object->dlpi_addr + r->r_offset));
		}
	return 1;
}

/* A request to the interrupt thread. */
struct request {
	struct guard guard; /* to take */
	uint16_t port; /* to close; RTE_MAX_ETHPORTS: none */
	bool done;
};

static void
serve(void *arg)
{
	struct request *request = arg;

	if (request->port == RTE_MAX_ETHPORTS)
		guard = request->guard;
	else {
		(void)rte_eth_dev_stop(request->port);
		(void)rte_eth_dev_close(request->port);
	}
	/* Release: the caller sees what was done. */
	__atomic_store_n(&request->done, true, __ATOMIC_RELEASE);
}

static void
submit(struct request *request)
{
	if (rte_eal_alarm_set(1, serve, request) < 0)
		serve(request);
	while (!__atomic_load_n(&request->done, __ATOMIC_ACQUIRE))
		rte_delay_us_sleep(100);
}

void
pktbuf_memif_close(uint16_t port)
{
	struct request request = {.port = port};

	submit(&request);
}

void
pktbuf_memif_guard(void (*wait)(void *arg), void *arg)
{
	struct request request = {.guard = {.wait = wait, .arg = arg}, .port = RTE_MAX_ETHPORTS};
	int rc = -ENOENT;

	submit(&request);
	if (wait == NULL)
		return;
	dl_iterate_phdr(visit, &rc);
	if (rc < 0)
		rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_EAL,
			"weir: the munmap() of " PKTBUF_MEMIF
			" cannot be replaced (%s): a peer that "
			"goes away may end this process\n",
			rte_strerror(-rc));
}
