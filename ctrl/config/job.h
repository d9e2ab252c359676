/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job as the configuration, the control API or the state file asks for it: its settings
 * (ctrl/config/job_settings.h) as values and as JSON, comparisons, and the checks whether the
 * switch can have it.
 */
#ifndef CTRL_CONFIG_JOB_H
#define CTRL_CONFIG_JOB_H

#include "ctrl/config/config.h"
#include "ctrl/config/job_keys.h"
#include "ctrl/config/schema.h"

/* A job as it is asked for. */
struct ctrl_job_spec {
	/* Without the id, the members and what else the registry sets. The key is zero, so that the
	 * registry draws one; only a job of the state file has a key. */
	struct ppe_job shape;
	int id; /* [0, 256); -1: the lowest that is free */
	uint32_t expire_s;
	bool temporary;
	bool open; /* asked for by a client that api.open_jobs admits */
	/* Address of a host that joins as member_rank at once, host order; 0: none. */
	uint32_t member_address;
	unsigned int member_rank;
	json_t *shown; /* of a job in a tree: ctrl_tree_shown; not owned. NULL: it is in no tree */
};

enum ctrl_setting_where { CTRL_SETTING_BOTH, CTRL_SETTING_FILE, CTRL_SETTING_API };

/* A setting: a line of CTRL_JOB_SETTINGS. */
struct ctrl_setting {
	struct ctrl_key key; /* its path is its name, its field is in struct ctrl_job_spec */
	enum ctrl_setting_where where;
	bool change; /* it can change in a running job */
	bool host_needs; /* a host must know it */
	struct ctrl_tree_rule tree;
};

extern const struct ctrl_setting ctrl_settings[];
extern const size_t ctrl_settings_count;

/* Read the settings of an object that passed a check. Settings that it lacks keep their values. */
void ctrl_settings_read(const json_t *object, struct ctrl_job_spec *spec);

/* A job whose settings are the defaults, without a name, size or id. */
struct ctrl_job_spec ctrl_job_spec_default(bool temporary);

/* The settings of a job of the configuration. Of a running job: ctrl_job_settings. */
struct ctrl_job_spec ctrl_job_spec_of(const struct ppe_job *job);

/* Put the settings that the control API has into an object. host_only: those that a host needs. */
void ctrl_settings_put(json_t *object, const struct ctrl_job_spec *spec, bool host_only);

/* Do two jobs have the same value of a setting? */
bool ctrl_setting_same(const struct ctrl_setting *setting, const struct ctrl_job_spec *a,
	const struct ctrl_job_spec *b);

/* Are all settings the same? fixed_only: compare only those that can't change. */
bool ctrl_settings_same(
	const struct ctrl_job_spec *a, const struct ctrl_job_spec *b, bool fixed_only);

/* Copy from `next` every setting that can change and differs from `before`. */
void ctrl_settings_change(struct ctrl_job_spec *spec, const struct ctrl_job_spec *before,
	const struct ctrl_job_spec *next);

/* The word of an enum ppe_policy. A literal. */
const char *ctrl_policy_text(uint8_t policy);

/* The settings that can change as fields for the log, " timeout_ms=1000 policy=wait ...". */
struct ctrl_settings_text {
	char text[512];
};
struct ctrl_settings_text ctrl_settings_text(const struct ctrl_job_spec *spec);

/* -- checks: true; or false, and the reason as text */

struct ctrl_reason {
	char text[224];
};

/* May a source have this address: a host's in the switch's subnet, not the switch's own? Pure. */
bool ctrl_check_address(
	const struct ctrl_config *config, uint32_t address, struct ctrl_reason *reason);

/* May a source that is a switch have this address? It may be outside the subnet. Pure. */
bool ctrl_check_switch(
	const struct ctrl_config *config, uint32_t address, struct ctrl_reason *reason);

/* Is there such an operation on elements of such a type? Pure. */
bool ctrl_check_reduction(const struct ppe_job *job, struct ctrl_reason *reason);

/* Can the job have this `integrity`? Pure. */
bool ctrl_check_integrity(const struct ppe_job *job, struct ctrl_reason *reason);

/* Does every frame of the job fit every port, as far as the configuration tells? Pure. */
bool ctrl_check_frames(
	const struct ctrl_config *config, const struct ppe_job *job, struct ctrl_reason *reason);

/* Does every frame of the job fit the MTUs that the ports' interfaces have now? Asks the kernel. */
bool ctrl_check_links(
	const struct ctrl_config *config, const struct ppe_job *job, struct ctrl_reason *reason);

/* Bytes of the largest IPv4 datagram that all ports carry now, at most 65535. Asks the kernel. */
uint32_t ctrl_links_mtu(const struct ctrl_config *config);

/* Set the elements of a job that has 0 of them, as CTRL_JOB_SETTINGS says. Asks the kernel. */
void ctrl_fit_elements(const struct ctrl_config *config, struct ppe_job *job);

/* Size of the packet buffers that the job's frames need, in bytes. */
uint32_t ctrl_job_packet_bytes(const struct ppe_job *job);

/* Do the job's frames fit the packet buffers of the running switch? Pure. */
bool ctrl_check_buffers(
	const struct ctrl_config *config, const struct ppe_job *job, struct ctrl_reason *reason);

#endif
