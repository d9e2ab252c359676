/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /metrics: the faults that are set. A series per rule and counter, of which there are few. */
#include "ctrl/api/metrics.h"

#include <stdio.h>

#include "ctrl/config/faults.h"
#include "ppe/faults/faults.h"

struct labels {
	char rule[METRICS_LABEL_BYTES], about[3 * METRICS_LABEL_BYTES];
};

static void
make_labels(struct labels *labels, const struct ctrl_config *config,
	const struct ppe_fault_rule *rule, unsigned int index)
{
	char port[METRICS_LABEL_BYTES];

	metrics_number(labels->rule, "rule", index);
	metrics_label(
		port, sizeof(port), "port", rule->port >= 0 ? config->port[rule->port].name : "");
	snprintf(labels->about, sizeof(labels->about), "action=\"%s\",direction=\"%s\",%s",
		ctrl_fault_action(rule->action), rule->direction == PPE_FAULT_IN ? "in" : "out",
		port);
}

static void
put_rules(struct metrics *metrics, const struct labels *labels, unsigned int count,
	const char *name, const char *help, const uint64_t *values)
{
	metrics_family(metrics, name, "counter", help);
	for (unsigned int i = 0; i < count; i++)
		metrics_u64(metrics, "", labels[i].rule, labels[i].about, values[i]);
}

void
metrics_faults_put(struct metrics *metrics, const struct ctrl_running *running)
{
	const struct ppe_faults *faults = ppe_faults_of(running->ppe);
	unsigned int count = faults == NULL ? 0 : faults->nb_rules;
	struct labels labels[PPE_FAULT_RULES_MAX];
	struct ppe_fault_stats stats;

	ppe_faults_read(running->ppe, &stats);
	for (unsigned int i = 0; i < count; i++)
		make_labels(&labels[i], running->config, &faults->rule[i], i);
	metrics_family(metrics, "weir_fault_rules", "gauge",
		"Rules of the faults that are set on purpose; 0: none");
	metrics_u64(metrics, "", NULL, NULL, count);
	metrics_family(metrics, "weir_fault_held_packets", "gauge",
		"Packets that faults delay, or hold until they are overtaken");
	metrics_u64(metrics, "", NULL, NULL, stats.held);
	put_rules(metrics, labels, count, "weir_fault_matched_packets_total",
		"Packets that a rule is about, since the faults were set", stats.matched);
	put_rules(metrics, labels, count, "weir_fault_hit_packets_total",
		"Those of them that it chose", stats.hit);
	put_rules(metrics, labels, count, "weir_fault_spared_packets_total",
		"Those chosen that passed for want of room to hold or copy them", stats.spared);
}
