/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration of a switch: one JSON file, read once, validated whole, then frozen.
 *
 * keys.c lists the keys. A wrong file is refused here, before anything starts, with the place and
 * the reason. Reading a configuration has no side effects and needs no EAL; the switch checks at
 * its start that this machine has the interfaces and CPUs.
 *
 * Thread safety: a configuration is read-only once loaded.
 */
#ifndef CTRL_CONFIG_H
#define CTRL_CONFIG_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "ctrl/config/error.h"
#include "ctrl/log.h"
#include "pktbuf/port.h"
#include "ppe/faults/faults.h"
#include "ppe/jobs.h"
#include "ppe/ppe.h"

#define CTRL_NAME_BYTES      32 /* terminators included */
#define CTRL_DEVICE_BYTES    256
#define CTRL_INTERFACE_BYTES 16
#define CTRL_SOCKET_BYTES    108 /* a path of a Unix socket */
#define CTRL_CPUS_MAX        64
#define CTRL_LISTENERS_MAX   8
#define CTRL_FILE_BYTES      256 /* a path of a file */
#define CTRL_PROGRAM_BYTES   64 /* the name of a file of the program directory */
#define CTRL_TENANTS_MAX     256
#define CTRL_HASH_BYTES      32 /* SHA-256 */
#define CTRL_HOSTS_MAX       16
#define CTRL_HOST_BYTES      254 /* a DNS name */

/* What ctrl knows of a port beyond its pktbuf_port_config. */
struct ctrl_port {
	char arguments[CTRL_DEVICE_BYTES]; /* the device as EAL takes it: name and arguments */
	char device[CTRL_DEVICE_BYTES]; /* its name, by which DPDK knows the port */
	char interface[CTRL_INTERFACE_BYTES]; /* the kernel interface below it, or "" */
	char socket[CTRL_SOCKET_BYTES]; /* path of the Unix socket that the device makes, or "" */
	char neighbor[CTRL_NAME_BYTES]; /* the switch or host at the other end, for people, or "" */
	uint32_t frame_max; /* bytes of the largest frame that it carries; 0: not known here */
	uint32_t buffer_bytes; /* packet buffer that the device asks for; 0: any */
	bool pci;
	bool keeps_sent; /* its transmit rings may be full of packet buffers, too */
	uint32_t kept; /* packet buffers that it keeps for each queue, besides the descriptors' */
	uint32_t ring; /* maximum of packet buffers that the device keeps in a queue; 0: none */
};

/* An address that the control API listens on. */
struct ctrl_listener {
	char text[CTRL_FILE_BYTES]; /* as in the file */
	bool exception; /* on the switch's own address, on the exception interface */
	socklen_t length;
	union {
		struct sockaddr any;
		struct sockaddr_un un;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} address;
};

/* What a tenant may have at most; 0: no limit. */
struct ctrl_quota {
	uint32_t jobs;
	uint32_t members; /* the sum of its jobs' sizes */
	uint32_t memory_mb; /* MiB, for everything that its jobs take */
	uint32_t blocks; /* records of all its jobs together */
	uint32_t rate_mbit;
	uint32_t changes_per_s; /* requests that may change something (ctrl/api/auth.h) */
	uint32_t changes_burst; /* such requests at once, [1, 1000000] */
};

/* A client of the control API that has a token. */
struct ctrl_tenant {
	char name[CTRL_NAME_BYTES];
	uint8_t token_sha256[CTRL_HASH_BYTES];
	bool admin; /* may do everything, to every job */
	struct ctrl_quota quota;
};

/* The control API. */
struct ctrl_api {
	unsigned int nb_listeners; /* 0: there is no API */
	struct ctrl_listener listener[CTRL_LISTENERS_MAX];
	char certificate[CTRL_FILE_BYTES], key[CTRL_FILE_BYTES]; /* of TLS, or "" */
	char socket_group[CTRL_NAME_BYTES]; /* of Unix sockets; "": the process's */
	unsigned int nb_names;
	char name[CTRL_HOSTS_MAX][CTRL_HOST_BYTES]; /* names that clients may use for the switch */
	bool open_read; /* reading the public resources needs no token */
	bool load_over_tcp; /* administrators may load programs over TCP */
	uint16_t open_jobs; /* temporary jobs that clients over TCP without a token may have made */
	unsigned int nb_tenants;
	struct ctrl_tenant *tenant;
};

/* A configuration. All of it is owned by the struct, and read-only. */
struct ctrl_config {
	char name[CTRL_NAME_BYTES];
	uint8_t prefix; /* of the switch's subnet, [1, 30]; the address is ppe.identity.ip */
	char exception[CTRL_INTERFACE_BYTES]; /* the TAP's name, or "" */
	/* The state that survives a restart (ctrl/jobs/state.h), or "" */
	char state_file[CTRL_FILE_BYTES];
	char program_directory[CTRL_FILE_BYTES]; /* an absolute path */
	char filter_directory[CTRL_FILE_BYTES]; /* an absolute path */
	struct ctrl_log_config log;
	struct ppe_config ppe;
	unsigned int nb_ports; /* the exception port, the last one, included */
	struct pktbuf_port_config port[PPE_PORTS_MAX];
	struct ctrl_port port_more[PPE_PORTS_MAX];
	unsigned int nb_jobs;
	struct ppe_job *job; /* nb_jobs, in the file's order */
	struct ppe_jobs jobs; /* the same jobs by id: the first table of the switch */
	struct ppe_faults faults; /* without rules: none */
	struct ctrl_api api;
	unsigned int main_cpu;
	unsigned int nb_cpus;
	uint16_t cpu[CTRL_CPUS_MAX]; /* worker i runs on cpu[i % nb_cpus] */
	uint32_t memory_mb;
	bool telemetry; /* DPDK's telemetry socket is open */
	bool capture; /* a second process may attach and capture packets: EAL shares its memory */
	struct ppe_memory memory; /* what the switch will take, within memory_mb */
	json_t *document; /* the file */
	int argc; /* of EAL */
	char **argv; /* NULL-terminated; EAL gets a copy of the pointers, because it moves them */
};

/*
 * Read a file. 0 and a configuration for ctrl_config_destroy, or -errno, *config NULL and the
 * reason in `error` (one line, no line end): -EINVAL for a wrong file, others for an unreadable
 * one. Draws first_generation and hash_seed at random.
 */
int ctrl_config_load(const char *path, struct ctrl_config **config, char *error, size_t error_size);

/* As ctrl_config_load, from `length` bytes of text. name: the file's name in the reason. */
int ctrl_config_parse(const char *text, size_t length, const char *name,
	struct ctrl_config **config, char *error, size_t error_size);

/* Free. config: NULL is fine. Destroy the switch that runs on its job table first. */
void ctrl_config_destroy(struct ctrl_config *config);

/* The first listener that tenants on other machines reach without TLS, so that their tokens can be
 * read in transit. NULL: none. */
const struct ctrl_listener *ctrl_api_clear_text(const struct ctrl_api *api);

/* Print the memory that the switch takes, computed before anything is allocated: pools, tables,
 * ports' rings and jobs, a line each. */
void ctrl_memory_print(const struct ctrl_config *config, FILE *out);

/* The least `memory_mb` that this configuration runs with, MiB. */
uint32_t ctrl_memory_least(const struct ctrl_config *config);

/* The least `pools.packets`: what the ports' rings hold, and what the workers need. */
uint64_t ctrl_packets_least(const struct ctrl_config *config);

/* Bytes of the largest Ethernet frame (without FCS) of a job: a result in the extended form. */
uint32_t ctrl_job_frame_bytes(const struct ppe_job *job);

/*
 * The file's keys, with the defaults of absent keys, and without the tokens of tenants. Sections
 * that switch something on (exception, api, api.tls) are there only if the file has them. A new
 * object, or NULL without memory.
 */
json_t *ctrl_config_json(const struct ctrl_config *config);

/* -- the section `faults`, which is also a request of the control API */

/* Check and read a section; `config` has the names of the ports. faults: zeroed. 0, or -EINVAL and
 * the error. */
int ctrl_faults_parse(const struct ctrl_config *config, json_t *section, struct ppe_faults *faults,
	struct ctrl_error *error);

/* A rule as the section has it, with every key. A new object, or NULL without memory. */
json_t *ctrl_fault_rule_json(const struct ctrl_config *config, const struct ppe_fault_rule *rule);

/* A key's word for an action: "drop". A constant. */
const char *ctrl_fault_action(enum ppe_fault_action action);

#endif
