/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/jobs/check.h"

#include <stdarg.h>
#include <stdio.h>

#include "ctrl/config/values.h"
#include "rmw/kernels.h"

#define VLAN_AND_FCS 8u

static bool __attribute__((format(printf, 2, 3)))
no(struct ctrl_reason *reason, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason->text, sizeof(reason->text), format, args);
	va_end(args);
	return false;
}

uint32_t
ctrl_job_frame_bytes(const struct ppe_job *job)
{
	uint32_t bitmap = job->policy == PPE_POLICY_PARTIAL ? WEIR_BITMAP_BYTES : 0;
	uint32_t tag = job->authenticated ? WEIR_TAG_BYTES : 0;

	return 14 + 20 + 8 + WEIR_EXT_BYTES + ppe_job_payload_bytes(job) + bitmap + tag;
}

uint32_t
ctrl_job_packet_bytes(const struct ppe_job *job)
{
	return ctrl_job_frame_bytes(job) + VLAN_AND_FCS;
}

bool
ctrl_check_address(const struct ctrl_config *config, uint32_t address, struct ctrl_reason *reason)
{
	uint32_t own = config->ppe.identity.ip;
	uint32_t hosts = UINT32_MAX >> config->prefix;

	if (address == own)
		return no(
			reason, "%s is the switch's own address", ctrl_address_text(address).text);
	if ((address & ~hosts) != (own & ~hosts))
		return no(reason, "%s is outside the switch's subnet %s/%u",
			ctrl_address_text(address).text, ctrl_address_text(own & ~hosts).text,
			config->prefix);
	if ((address & hosts) == 0 || (address & hosts) == hosts)
		return no(reason, "%s is not a host's address in %s/%u",
			ctrl_address_text(address).text, ctrl_address_text(own & ~hosts).text,
			config->prefix);
	return true;
}

bool
ctrl_check_reduction(const struct ppe_job *job, struct ctrl_reason *reason)
{
	if (rmw_reduction(job->dtype, job->op) != NULL)
		return true;
	return no(reason, "%s is for integers only, and %s is none", rmw_op_name(job->op),
		rmw_type_name(job->dtype));
}

bool
ctrl_check_frames(
	const struct ctrl_config *config, const struct ppe_job *job, struct ctrl_reason *reason)
{
	uint32_t frame = ctrl_job_frame_bytes(job);

	for (unsigned int p = 0; p < config->nb_ports; p++) {
		uint32_t most = config->port_more[p].frame_max;

		if (most > 0 && frame > most)
			return no(reason,
				"%u elements make frames of %u bytes, and port %s carries %u",
				job->elements, frame, config->port[p].name, most);
	}
	return true;
}

bool
ctrl_check_buffers(
	const struct ctrl_config *config, const struct ppe_job *job, struct ctrl_reason *reason)
{
	uint32_t need = ctrl_job_packet_bytes(job);

	if (need <= config->ppe.packet_bytes)
		return true;
	return no(reason,
		"%u elements need packet buffers of %u bytes, and the switch was started with %u: "
		"fewer elements, or a larger pools.frame_bytes in its configuration",
		job->elements, need, config->ppe.packet_bytes);
}
