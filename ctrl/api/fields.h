/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fields of the control API's answers, one line each. From these lists come the answers, the
 * schemas of docs/openapi.json, and weirctl's tables.
 *
 *	X(key, kind, flags, value, of, help)
 *	E(key, kind, flags, of, help)
 *
 * X: API_PUT of ctrl/api/answer.h puts the field; E: it is put elsewhere
 * kind   of the value and its unit: API_KINDS
 * flags  OPTIONAL: the answer may lack it; NULLABLE: it may be null; 0
 * value  an expression in the function that has the list; of a kind that ends in _OR_NULL, -1 is
 *        null, of SECONDS and TIME a NaN, of TEXT a null pointer; LIST and OBJECT: NULL leaves the
 *        field out
 * of     OBJECT and LIST: the name of an object below; WORD: "one|two"; otherwise an example, or
 *        NULL
 *
 * To add a field: add its line here. To add an object: its list here, and its line in API_OBJECTS.
 */
#ifndef CTRL_API_FIELDS_H
#define CTRL_API_FIELDS_H

/* X(kind, type of JSON, unit, an example). The unit "Unix time" is seconds since 1970. */
#define API_KINDS(X)                                                                               \
	X(BOOLEAN, "boolean", NULL, "true")                                                        \
	X(ID, "integer", NULL, "1")                                                                \
	X(COUNT, "integer", NULL, "4")                                                             \
	X(ID_OR_NULL, "integer", NULL, "1")                                                        \
	X(BYTES, "integer", "bytes", "1048576")                                                    \
	X(MS, "integer", "milliseconds", "250")                                                    \
	X(MS_OR_NULL, "integer", "milliseconds", "250")                                            \
	X(MBIT, "integer", "Mbit/s", "1000")                                                       \
	X(SECONDS, "number", "seconds", "0.25")                                                    \
	X(TIME, "number", "Unix time", "1764300000.5")                                             \
	X(SHARE, "number", "share, 0 to 1", "0.5")                                                 \
	X(TEXT, "string", NULL, "\"text\"")                                                        \
	X(WORD, "string", NULL, NULL)                                                              \
	X(OBJECT, "object", NULL, NULL)                                                            \
	X(LIST, "array", NULL, NULL)                                                               \
	X(IDS, "array of integers", NULL, "[0, 1]")                                                \
	X(TEXTS, "array of strings", NULL, "[\"text\"]")                                           \
	X(RATES, "array of numbers", NULL, "[null, 1250.5]")                                       \
	X(PAIRS, "array of pairs", NULL, "[[0, 0.75], [1, 0.25]]")

/* clang-format off */

/* -- the switch */

#define API_HEALTH(X, E) \
	X(status, WORD, 0, "ok", "ok", "") \
	X(uptime, SECONDS, 0, call->seen->uptime, NULL, "")

#define API_READY(X, E) \
	X(ready, BOOLEAN, 0, true, NULL, "")

#define API_WORKER(X, E) \
	X(id, ID, 0, w, "0", "") \
	X(lcore, ID, 0, w + 1, NULL, "") /* as ctrl/config/eal.c assigns them */ \
	X(cpu, ID, 0, config->cpu[w % config->nb_cpus], NULL, "") \
	X(busy, SHARE, 0, seen->pulse[w].busy, NULL, \
		"share of the last second's turns that found work") \
	X(threads_live, COUNT, 0, seen->gauges.threads_live[w], NULL, "")

#define API_MEMORY(X, E) \
	X(total, BYTES, 0, (uint64_t)seen->config->memory_mb << 20, NULL, \
		"`memory_mb` of the configuration") \
	X(free, BYTES, 0, seen->memory_free, NULL, "free bytes of DPDK's heaps") \
	X(data, BYTES, 0, data, NULL, "aggregation buffers of all jobs") \
	E(blocks_capacity, COUNT, 0, NULL, "number of block records") \
	E(blocks_reserved, COUNT, 0, NULL, "block records that jobs may use") \
	E(blocks_used, COUNT, 0, NULL, "blocks that are open or done")

#define API_POOL(X, E) \
	X(size, COUNT, 0, gauge->size, NULL, "") \
	X(free, COUNT, 0, gauge->free, NULL, "")

#define API_POOLS(X, E) \
	X(packets, OBJECT, 0, pool_json(&seen->gauges.packets), "Pool", "") \
	X(headers, OBJECT, 0, pool_json(&seen->gauges.headers), "Pool", "") \
	X(attaches, OBJECT, 0, pool_json(&seen->gauges.attaches), "Pool", "")

#define API_PACKETS(X, E) \
	E(received, COUNT, 0, NULL, "") \
	E(created, COUNT, 0, NULL, "") \
	E(sent, COUNT, 0, NULL, "") \
	E(consumed, COUNT, 0, NULL, "") \
	E(dropped, COUNT, 0, NULL, "") \
	E(in_flight, COUNT, 0, NULL, "") \
	X(off_by, ID, 0, ctrl_stats_off_by(&seen->stats), "0", \
		"received + created - sent - consumed - dropped - in_flight: 0 at rest")

#define API_FAULTS_BRIEF(X, E) \
	X(rules, COUNT, 0, seen->faults.nb_rules, "0", "0: none are set") \
	X(elapsed_ms, MS, 0, stats->elapsed_us / 1000, "0", "since they were set") \
	X(hit, COUNT, 0, hit, "0", "") \
	X(held_now, COUNT, 0, stats->held, "0", "")

#define API_STATUS(X, E) \
	X(name, TEXT, 0, seen->config->name, "weir", "") \
	X(version, TEXT, 0, WEIR_VERSION, WEIR_VERSION, "") \
	X(pid, ID, 0, (uint64_t)getpid(), "4711", "") \
	X(uptime, SECONDS, 0, seen->uptime, NULL, "") \
	X(address, TEXT, 0, ctrl_address_text(identity->ip).text, "10.77.0.254", "") \
	X(mac, TEXT, 0, mac_text(identity->mac).text, "02:00:00:00:00:fe", "") \
	X(udp_port, ID, 0, identity->port_base, "12000", "") \
	X(udp_port_ext, ID, 0, identity->port_ext, "12001", "") \
	X(workers, LIST, 0, workers_json(seen), "Worker", "") \
	X(ports, COUNT, 0, seen->config->nb_ports, NULL, "") \
	X(jobs, COUNT, 0, jobs, NULL, "") \
	X(memory, OBJECT, 0, memory_json(seen), "Memory", "") \
	X(pools, OBJECT, 0, pools_json(seen), "Pools", "packet buffers") \
	X(packets, OBJECT, 0, packets_json(seen), "Packets", "") \
	X(faults, OBJECT, 0, faults_json(seen), "FaultsBrief", \
		"a summary of the faults that are set on purpose")

#define API_QUEUES(X, E) \
	X(rx, COUNT, 0, config->rx_queues, NULL, "") \
	X(tx, COUNT, 0, config->tx_queues, NULL, "") \
	X(steered, BOOLEAN, 0, port->is_steered, NULL, \
		"the device puts contributions into the queues of their blocks' owners") \
	X(waiting, COUNT, 0, port->queue.packets, NULL, "packets that wait for the port") \
	X(oldest_ms, MS, 0, port->queue.oldest_ms, NULL, \
		"the oldest of them has waited at least so long") \
	X(stalled, BOOLEAN, 0, port->queue.is_stalled, NULL, \
		"packets for the port were dropped, and since then it has taken none") \
	X(copied, BOOLEAN, 0, port->queue.is_copied, NULL, \
		"results of more than 512 bytes are copied for the port at present, because its " \
		"device has not shown that it gives packets back, or takes nothing")

#define API_PORT(X, E) \
	X(id, ID, 0, index, "0", "") \
	X(name, TEXT, 0, config->name, "p0", "") \
	X(device, TEXT, 0, config->device, "net_af_packet0", "the device's name in DPDK") \
	X(up, BOOLEAN, 0, port->is_up, NULL, "there is a link") \
	X(mac, TEXT, 0, mac_text(port->mac).text, "02:00:00:00:00:fe", "") \
	X(mtu, COUNT, 0, port->mtu, "9000", "bytes") \
	X(neighbor, TEXT, NULLABLE, neighbor[0] == '\0' ? NULL : neighbor, "host1", \
		"the switch or host at the other end, as the configuration says") \
	X(queues, OBJECT, 0, queues_json(config, port), "Queues", "")

#define API_PORTS(X, E) \
	X(ports, LIST, 0, list, "Port", "")

#define API_WORKER_COUNTERS(X, E) \
	E(id, ID, 0, "0", "")
#define API_PORT_COUNTERS(X, E) \
	E(name, TEXT, 0, "p0", "")
#define API_JOB_COUNTERS(X, E) \
	X(id, ID, 0, job->shape.id, NULL, "") \
	X(name, TEXT, 0, job->shape.name, "ring", "")

#define API_COUNTERS(X, E) \
	X(time, TIME, 0, ctrl_unix_time(), NULL, "") \
	X(packets, OBJECT, 0, packets, "Numbers", "") \
	X(drops, OBJECT, 0, ctrl_drops_json(&seen->stats), "Numbers", \
		"packets by reason, every reason of ppe/drops.h") \
	X(workers, LIST, 0, workers, "WorkerCounters", "") \
	X(ports, LIST, 0, ctrl_ports_json(seen->config, &seen->stats), "PortCounters", "") \
	X(jobs, LIST, 0, api_jobs(call, job_counters_json), "JobCounters", \
		"those that the client may see")

/* -- jobs */

#define API_BUFFERS(X, E) \
	X(used, COUNT, 0, stats->buffers_used, NULL, "") \
	X(reserved, COUNT, 0, stats->buffers_reserved, "128", "")

#define API_LATENCY(X, E) \
	X(blocks, COUNT, 0, blocks, "1000", "") \
	X(seconds, SECONDS, 0, (double)stats->latency.sum_ns / 1e9, NULL, \
		"sum of the blocks' times from the first contribution to the result")

#define API_REFUSED_PARENT(X, E) \
	X(setting, TEXT, 0, ctrl_parent_words(stats->refused).setting, "window", \
		"in which the two jobs disagree") \
	X(here, ID, 0, stats->ours, "64", "the value here, as a number") \
	X(there, ID, 0, stats->theirs, "128", "the parent's") \
	X(why, TEXT, 0, ctrl_parent_words(stats->refused).rule, "must be equal", "what must hold")

#define API_PARENT(X, E) \
	X(generation, ID, 0, stats->generation, NULL, \
		"of its job, in which this switch takes part; 0: none") \
	X(serves, BOOLEAN, 0, stats->serves, NULL, \
		"blocks go to it; false while others serve without it, or none does") \
	X(silent_ms, MS_OR_NULL, NULLABLE, \
		stats->heard ? (int64_t)(stats->silent_us / 1000) : -1, NULL, \
		"since its last packet; null: it was never heard") \
	X(joining, BOOLEAN, 0, stats->joining, "false", \
		"this switch asks it for the next generation") \
	X(refused, OBJECT, NULLABLE, refused_json(stats), "RefusedParent", \
		"why this switch does not take part in its job, by its last answer to a join; " \
		"null: it did not disagree")

#define API_PARENT_GIVEN(X, E) \
	E(name, TEXT, 0, "spine0", "") \
	E(address, TEXT, 0, "10.78.0.254", "") \
	E(mac, TEXT, 0, "02:00:00:00:01:fe", "") \
	E(port, TEXT, 0, "up0", "this switch's port to it") \
	E(udp_port, ID, OPTIONAL, "12001", "") \
	E(job, ID, 0, NULL, "id of the job there") \
	E(api, TEXT, NULLABLE, "http://10.78.0.254:8080", "URL of its control API")

#define API_TREE(X, E) \
	E(ranks, COUNT, 0, NULL, "of the whole tree") \
	E(first_rank, ID, 0, "0", "the lowest one below this switch") \
	E(parents, LIST, 0, "Parent", "")

#define API_CHILD(X, E) \
	E(id, ID, 0, "0", "its first rank") \
	E(address, TEXT, 0, "10.77.1.254", "") \
	E(ranks, COUNT, 0, NULL, "how many it covers, from its id on") \
	E(name, TEXT, NULLABLE, "leaf1", "only shown") \
	E(api, TEXT, NULLABLE, "http://10.77.1.254:8080", "URL of its control API") \
	E(key, TEXT, OPTIONAL, "64 hexadecimal digits", \
		"its key: only in the answer to the request that made an authenticated job")

/* What is known of a source, for its job and for blocks that wait for it. */
#define API_SOURCE(X, E) \
	X(rank, ID, 0, rank, "2", "") \
	X(address, TEXT, NULLABLE, address == 0 ? NULL : ctrl_address_text(address).text, \
		"10.77.0.3", "of the last member; null: none has joined") \
	X(last_heard, SECONDS, NULLABLE, heard ? silent : (double)NAN, NULL, \
		"since its last packet in a generation, also of a member that is gone; a join " \
		"counts when its generation has begun") \
	X(silent, BOOLEAN, 0, !heard || silent > API_SILENT_US / 1e6, "false", \
		"never heard, or not for 3 s: dead if blocks wait for it") \
	X(state, WORD, 0, state_text(&job->job, &job->membership, rank), \
		"joined|expected|expired|left", \
		"expected: other members ask to join the next generation, and this one does not") \
	X(gone, SECONDS, NULLABLE, gone, "null", "since it left or expired") \
	X(asks, SECONDS, NULLABLE, \
		source->joining ? (double)source->joining_us / 1e6 : (double)NAN, "null", \
		"since it first asked to join the next generation, while it still asks") \
	X(contested, BOOLEAN, 0, source->contested, "false", \
		"two processes ask for this rank, or one asks and another still contributes")

/* The same of a source that is a switch. */
#define API_SOURCE_SWITCH(X, E) \
	X(ranks, COUNT, OPTIONAL, job->shape.ranks[rank], NULL, \
		"of a switch: how many ranks it covers, from `rank` on") \
	X(name, TEXT, OPTIONAL | NULLABLE, text_in(child, "name"), "leaf1", "of a switch") \
	X(api, TEXT, OPTIONAL | NULLABLE, text_in(child, "api"), "http://10.77.1.254:8080", \
		"of a switch: URL of its control API")

#define API_MEMBER(X, E) \
	X(port, TEXT, NULLABLE, s->located ? config->port[s->port].name : NULL, "p2", \
		"the switch port of its last join") \
	X(udp, ID_OR_NULL, NULLABLE, s->located ? (int64_t)s->udp : -1, "50123", "") \
	X(joined, TIME, NULLABLE, \
		member != NULL && member->joined > 0 ? member->joined : (double)NAN, NULL, "") \
	X(membership, ID_OR_NULL, NULLABLE, \
		member != NULL ? (int64_t)member->membership : -1, NULL, \
		"of its last join; 0: none; null: hosts do not join the job over the API") \
	X(waited, SECONDS, 0, (double)s->waited_us / 1e6, NULL, \
		"for which finished blocks waited for it as the last source") \
	X(waiting, SECONDS, 0, (double)job->waiting_us[rank] / 1e6, NULL, \
		"for which blocks wait for it now") \
	X(last, COUNT, 0, s->last, NULL, "blocks that it completed as the last source")

#define API_JOB(X, E) \
	X(id, ID, 0, shape->id, NULL, "on the wire") \
	X(name, TEXT, 0, shape->name, "ring", "") \
	X(tenant, TEXT, NULLABLE, job->job.tenant == NULL ? NULL : job->job.tenant->name, \
		"vision", "") \
	X(origin, WORD, 0, job->job.from_file ? "file" : "api", "api|file", "") \
	X(size, COUNT, 0, shape->nb_sources, NULL, "") \
	X(joined, COUNT, 0, job->membership.joined, NULL, \
		"members that have joined; while the job waits for others, those that ask") \
	X(generation, ID, 0, job->stats.generation, NULL, "") \
	X(element_bytes, BYTES, 0, weir_dtype_bytes(shape->dtype), "4", \
		"size of an element of the job's type") \
	X(state, WORD, 0, ctrl_job_state_text(job->membership.state), \
		"running|joining|idle|draining", \
		"running: all members of the generation are present. joining: the job waits for " \
		"members, at the beginning, or because one has left, expired or asked to join " \
		"again. idle: all members have left") \
	X(blocks_in_flight, COUNT, 0, job->stats.blocks_in_flight, NULL, "") \
	X(buffers, OBJECT, 0, buffers_json(&job->stats), "Buffers", "") \
	X(created, TIME, 0, job->job.created, NULL, "") \
	X(latency, OBJECT, 0, latency_json(&job->stats), "Latency", "") \
	X(counters, OBJECT, 0, counters, "Numbers", "PPE_JOB_COUNTERS of ppe/ppe.h") \
	E(tree, OBJECT, OPTIONAL, "Tree", "its place in a tree of switches") \
	E(sources, LIST, OPTIONAL, "Child", "only if they are switches") \
	X(members, LIST, OPTIONAL, has_members ? members_json(config, job) : NULL, "Member", \
		"only in the answer about one job") \
	X(remarks, LIST, OPTIONAL, has_members ? api_job_remarks(job) : NULL, "Cause", \
		"what people must know about the members; only in the answer about one job")

#define API_JOBS(X, E) \
	X(jobs, LIST, 0, page, "Job", "") \
	E(next, ID, OPTIONAL, NULL, "there are more: `after` of the next page")

#define API_DELETED(X, E) \
	X(deleted, COUNT, 0, deleted, NULL, "") \
	X(draining, COUNT, 0, leaving, "0", "of these, jobs whose last results are on their way")

#define API_JOB_STATE(X, E) \
	X(state, WORD, 0, leaving ? "draining" : "gone", "gone|draining", "")

#define API_TOKENS(X, E) \
	X(tokens, TEXTS, 0, list, NULL, "by rank, from 0 or the tree's first_rank on")

#define API_SWITCH(X, E) \
	X(address, TEXT, 0, ctrl_address_text(identity->ip).text, "10.77.0.254", "") \
	X(udp_port, ID, 0, identity->port_base, "12000", "") \
	X(udp_port_ext, ID, 0, identity->port_ext, "12001", "") \
	X(mtu, BYTES, 0, ctrl_links_mtu(running->config), "9000", \
		"the largest IPv4 datagram that all ports carry. A host whose interface has a " \
		"larger MTU can send datagrams that the switch can't")

#define API_JOINED(X, E) \
	X(job, ID, 0, shape->id, NULL, "id on the wire") \
	X(name, TEXT, 0, shape->name, "ring", "") \
	X(source, ID, 0, rank, "0", "source id on the wire: the rank") \
	X(size, COUNT, 0, ppe_job_tree_ranks(shape), NULL, "of a tree of switches: its ranks") \
	X(generation, ID, 0, stats.generation, "0", "0: the JOIN packets begin it") \
	E(membership, ID, OPTIONAL, NULL, \
		"number of this join, for leaving; not in jobs of the configuration") \
	X(datagram_bytes, BYTES, 0, ctrl_job_frame_bytes(shape) - 14, "1128", \
		"the largest IPv4 datagram of the job. A host whose interface has a smaller MTU " \
		"can't take part") \
	X(switch, OBJECT, 0, switch_json(running), "Switch", "") \
	E(key, TEXT, OPTIONAL, "32 bytes in base64", \
		"the member's key, which proves its JOIN packets (docs/protocol.md); not in jobs " \
		"of the configuration without a key. That of an authenticated job is given over " \
		"TLS or the Unix socket only")

/* -- blocks, and what is wrong */

#define API_WAITS_FOR(X, E) \
	X(parent, TEXT, 0, job->parent[block->parent].name, "spine0", "")

#define API_BLOCK(X, E) \
	X(job, TEXT, 0, job->name, "ring", "") \
	X(block, ID, 0, block->block, "17", "") \
	X(generation, ID, 0, block->generation, NULL, "") \
	X(state, WORD, 0, block_state(of, block), "open|up|done|abandoned", \
		"abandoned: open, and all its contributors have left, expired or joined again; " \
		"up: a parent's result is missing") \
	X(waits_for, OBJECT, OPTIONAL, waits_for_json(of, block), "WaitsFor", "up: the parent") \
	X(age, SECONDS, 0, seconds(block->age_us), NULL, "") \
	X(idle, SECONDS, 0, seconds(block->idle_us), NULL, "since the last new contribution") \
	X(heard, COUNT, 0, block->heard_count, "3", "") \
	X(size, COUNT, 0, job->nb_sources, NULL, "") \
	X(policy, TEXT, 0, ctrl_policy_text(job->policy), "wait", "") \
	X(policy_in, SECONDS, NULLABLE, policy_in(job, block), "null", \
		"until the policy acts; null: it waits") \
	X(missing, LIST, 0, missing_json(found, of, block), "Source", "")

#define API_BLOCKS(X, E) \
	X(blocks, LIST, 0, blocks, "Block", "") \
	X(total, COUNT, 0, found->total, NULL, "number of blocks without the limit") \
	E(next, TEXT, OPTIONAL, "1000-1-17", "there are more: `after` of the next page") \
	X(stuck, LIST, OPTIONAL, \
		found->is_diagnosing ? json_incref(found->diagnosis.entries) : NULL, "Cause", \
		"with stuck=1: why jobs do not progress. Blocks that wait for the same sources " \
		"are one entry")

#define API_CAUSE(X, E) \
	X(job, TEXT, 0, of->shape.name, "ring", "") \
	X(reason, WORD, 0, cause->reason, \
		"blocks|parent|join|acknowledgement|contested|expired|silent|late", \
		"what the job waits for: contributions to blocks, a parent's results, sources " \
		"that have not joined, acknowledgements of results. Remarks: two processes are " \
		"the same rank; members of a job that others have not left; others send, and " \
		"these do not; blocks waited mostly for this one, since the job was made") \
	X(severity, WORD, 0, severities[cause->severity], "failure|warning|note", \
		"failure: a host or switch is likely dead. note: nothing is wrong yet") \
	X(missing, LIST, 0, missing, "Source", "") \
	X(text, TEXT, 0, cause->text.text, "block 17 waits for rank 2 (10.77.0.3)", \
		"for people: what waits, the missing sources, and what the policy will do") \
	X(who, TEXT, 0, who.text, "rank 2", \
		"the missing, for a title: `ranks 6..7` or `leaf1`; equal as long as they are") \
	X(detail, TEXT, NULLABLE, cause->detail.length == 0 ? NULL : cause->detail.text, \
		"open for 4.1 s", "for people")

#define API_CAUSE_MORE(X, E) \
	E(blocks, IDS, OPTIONAL, NULL, "blocks and parent: the first of their numbers") \
	E(parent, TEXT, OPTIONAL, "spine0", \
		"parent, and join if a parent has to accept this switch: its name") \
	E(api, TEXT, OPTIONAL | NULLABLE, "http://10.78.0.254:8080", \
		"URL of the parent's control API")

/* -- history */

#define API_PORT_HISTORY(X, E) \
	E(name, TEXT, 0, "p0", "") \
	E(rx_bps, RATES, 0, NULL, "bits per second") \
	E(tx_bps, RATES, 0, NULL, "bits per second") \
	E(spoofed, RATES, OPTIONAL, NULL, "frames per second; only if there were any")

#define API_JOB_HISTORY(X, E) \
	E(name, TEXT, 0, "ring", "") \
	E(contributions, RATES, 0, NULL, "per second") \
	E(blocks, RATES, 0, NULL, "per second") \
	E(late_share, PAIRS, 0, NULL, \
		"for all members, rank and share of the time that blocks waited in the five " \
		"minutes; empty if the job is gone")

#define API_HISTORY(X, E) \
	E(interval, SECONDS, 0, "1", "between two samples") \
	E(time, TIME, 0, NULL, "of the last sample") \
	E(ports, LIST, 0, "PortHistory", "") \
	E(jobs, LIST, 0, "JobHistory", \
		"present jobs, after those that were deleted within the five minutes") \
	E(drops, OBJECT, 0, "RatesByReason", "packets per second, of reasons that occurred")

/* -- the administrator's */

#define API_TENANT(X, E) \
	X(name, TEXT, 0, tenant->name, "vision", "") \
	X(admin, BOOLEAN, 0, tenant->admin, "false", "") \
	X(jobs, COUNT, 0, use->jobs, NULL, "") \
	X(members, COUNT, 0, use->members, NULL, "sum of the sizes of its jobs") \
	X(memory, BYTES, 0, use->memory, NULL, \
		"all that its jobs take: buffers, tables, keys") \
	X(blocks, COUNT, 0, use->blocks, "128", "block records of its jobs: twice their windows") \
	X(rate_mbit, MBIT, 0, use->rate_mbit, NULL, "sum of the rates of its jobs") \
	X(quota, OBJECT, 0, quota, "Numbers", \
		"`api.tenants[].quota` of weir.json(5); 0: no limit")

#define API_TENANTS(X, E) \
	X(tenants, LIST, 0, list, "Tenant", "")

/* -- programs */

#define API_COLUMN(X, E) \
	X(key, TEXT, 0, column->key, "packets", "") \
	X(help, TEXT, NULLABLE, column->help, "packets received", "") \
	X(kind, WORD, 0, column_kinds[column->kind], "number|ipv4|mac|port", "")

#define API_PROGRAM_TABLE(X, E) \
	X(name, TEXT, 0, table->name, "flows", "") \
	X(help, TEXT, NULLABLE, table->help, "the largest flows", "") \
	X(columns, LIST, 0, columns, "Column", "") \
	X(rows, LIST, 0, rows, "Anything", \
		"the columns' values by their keys: numbers, or addresses and ports as text")

#define API_SIDECAR(X, E) \
	X(file, TEXT, 0, program->sidecar, "sessions", "") \
	X(pid, ID_OR_NULL, NULLABLE, sidecar->pid > 0 ? (int64_t)sidecar->pid : -1, "4711", \
		"null: it does not run") \
	X(starts, COUNT, 0, sidecar->starts, "1", "how often it was started")

#define API_PROGRAM_BRIEF(X, E) \
	X(name, TEXT, 0, program->name, "telemetry", "") \
	X(file, TEXT, NULLABLE, info->loaded == NULL ? NULL : info->loaded->file.name, \
		"telemetry.so", "null: it is built in") \
	X(phase, WORD, 0, phases[info->engine.phase], "loading|running|unloading", \
		"loading: not all workers have taken it. unloading: it gets no packets, and some " \
		"of its own are under way") \
	X(waits_for, TEXT, NULLABLE, waits_for(info), "its sidecar", "of one that is unloading") \
	X(help, TEXT, NULLABLE, program->help, "counts packets by flow", "what it does") \
	X(matches, TEXTS, 0, matches_json(&info->engine), NULL, \
		"the packets that it gets, in words") \
	X(counters, OBJECT, 0, counters_json(call->running, info), "Numbers", "")

#define API_PROGRAM_MORE(X, E) \
	X(settings, OBJECT, 0, ctrl_program_settings_json(program, info->engine.values), \
		"Anything", "with the defaults") \
	X(sidecar, OBJECT, OPTIONAL, sidecar_json(info), "Sidecar", \
		"the process that runs while the program is loaded") \
	X(tables, LIST, 0, tables_json(call->running, info), "ProgramTable", "")

#define API_PROGRAMS(X, E) \
	X(programs, LIST, 0, list, "ProgramBrief", "")

#define API_PROGRAM_STATE(X, E) \
	X(state, WORD, 0, is_there ? "unloading" : "gone", "gone|unloading", "")

/* -- the graph of programs, and a frame's way through it */

#define API_GRAPH_SEGMENT(X, E) \
	X(name, TEXT, 0, segment->name, "find_block", "") \
	X(leads_to, TEXTS, 0, words_json(segment->leads_to), NULL, \
		"further segments, and ends of the packet: send, consume, drop:REASON. " \
		"hop:SEGMENT is at another worker, pass:PROGRAM another program, pass the next " \
		"one that matches; output is a packet that the segment makes")

#define API_GRAPH_PROGRAM(X, E) \
	X(name, TEXT, 0, info->program->name, "forward", "") \
	X(built_in, BOOLEAN, 0, info->built_in, NULL, "") \
	X(phase, WORD, 0, phases[info->phase], "loading|running|unloading", "") \
	X(matches, TEXTS, 0, matches_json(info), NULL, "the packets that it gets, in words") \
	X(segments, LIST, 0, segments_json(info->program), "GraphSegment", "")

#define API_GRAPH(X, E) \
	X(programs, LIST, 0, list, "GraphProgram", "")

#define API_STEP(X, E) \
	X(segment, TEXT, 0, said->step[i].segment, "find_block", "") \
	X(text, TEXT, 0, said->step[i].text, "the block is in the table", "what it would find")

#define API_SIMULATION(X, E) \
	X(receive, TEXT, 0, said.receive, "worker 0 polls port p0", "") \
	X(worker, ID, 0, said.worker, "0", "that is taken for the receiver") \
	X(program, TEXT, NULLABLE, said.match == NULL ? NULL : said.program, "forward", \
		"null: none takes it") \
	X(match, TEXT, NULLABLE, said.match == NULL ? NULL : match.text, "every packet", "") \
	X(steps, LIST, 0, steps_json(&said), "Step", "") \
	X(end, TEXT, NULLABLE, said.end[0] == '\0' ? NULL : said.end, "drop:stale", \
		"send, consume or drop:REASON; null: not known") \
	X(text, TEXT, 0, said.text, "packet of another generation", "the end, in words")

/* -- filters */

#define API_FILTER(X, E) \
	X(name, TEXT, 0, filter->name, "sampler", "") \
	X(ports, TEXTS, 0, ports_json(config, filter), NULL, \
		"ports whose received packets it sees") \
	X(programs, TEXTS, 0, programs_json(filter), NULL, "programs that it may choose") \
	X(values, IDS, 0, numbers_json(filter->value, WEIR_FILTER_VALUES), NULL, "") \
	X(compiled, BOOLEAN, 0, info->is_compiled, "true", \
		"false: DPDK interprets it, which is slow") \
	X(passed, COUNT, 0, info->passed, NULL, "packets") \
	X(dropped, COUNT, 0, info->dropped, NULL, "packets") \
	X(to_program, COUNT, 0, info->to_program, "0", "packets given to a program") \
	X(to_worker, COUNT, 0, info->to_worker, "0", "packets given to a worker") \
	X(counters, IDS, 0, numbers_json(info->counter, WEIR_FILTER_COUNTERS), NULL, \
		"the filter's own counters, over all workers")

#define API_FILTERS(X, E) \
	X(filters, LIST, 0, list, "Filter", "")

#define API_FILTER_GONE(X, E) \
	X(state, WORD, 0, "gone", "gone", "")

#define API_RELOADED(X, E) \
	X(jobs_created, COUNT, 0, did->created, "1", "") \
	X(jobs_changed, COUNT, 0, did->changed, "0", "") \
	X(jobs_replaced, COUNT, 0, did->replaced, "0", "") \
	X(jobs_deleted, COUNT, 0, did->deleted, "0", "") \
	X(tenants, COUNT, 0, did->tenants, "2", "") \
	X(certificate, WORD, 0, did->has_new_certificate ? "new" : "same", "same|new", "")

#define API_LOG(X, E) \
	X(lines, TEXTS, 0, lines, NULL, "") \
	X(last, ID_OR_NULL, NULLABLE, (int64_t)number - 1, NULL, \
		"number of the last line, counted from the switch's start: `after` of the next " \
		"question; null: there is none") \
	X(missed, COUNT, 0, missed, "0", "lines after `after` that the switch no longer has")

#define API_FAULT_RULE(X, E) \
	X(matched, COUNT, 0, stats->matched[i], NULL, "over all ports") \
	X(hit, COUNT, 0, stats->hit[i], NULL, "over all ports") \
	X(spared, COUNT, 0, stats->spared[i], "0", "over all ports")

#define API_FAULTS(X, E) \
	X(seed, ID, 0, faults->seed, NULL, "") \
	X(held, COUNT, 0, faults->held, NULL, "") \
	X(rules, LIST, 0, rules, "FaultRule", "") \
	X(elapsed_ms, MS, 0, stats->elapsed_us / 1000, NULL, "since they were set") \
	X(held_now, COUNT, 0, stats->held, "0", \
		"packets that are delayed or wait to be overtaken") \
	X(spared, COUNT, 0, stats->spared_ever, "0", \
		"packets that passed unharmed, for lack of room to hold or copy them, since the " \
		"start")

/*
 * X(name, fields, others, settings, help)
 *
 * others    kind of further fields under keys that are not listed, such as counters; or NONE
 * settings  also the settings of a job: ALL, or those that a HOST needs; FAULT: the keys of
 *           `faults.rules[]` of the configuration; NONE
 */
#define API_OBJECTS(X) \
	X(Health, API_HEALTH, NONE, NONE, "") \
	X(Ready, API_READY, NONE, NONE, "") \
	X(Status, API_STATUS, NONE, NONE, "") \
	X(Worker, API_WORKER, COUNT, NONE, "With the counters of docs/counters.md#workers.") \
	X(Memory, API_MEMORY, COUNT, NONE, "") \
	X(Pool, API_POOL, NONE, NONE, "") \
	X(Pools, API_POOLS, NONE, NONE, "") \
	X(Packets, API_PACKETS, NONE, NONE, "") \
	X(FaultsBrief, API_FAULTS_BRIEF, NONE, NONE, "") \
	X(Queues, API_QUEUES, NONE, NONE, "") \
	X(Port, API_PORT, OBJECT, NONE, \
		"With the counters of docs/counters.md#ports: numbers, or one for each priority.") \
	X(Ports, API_PORTS, NONE, NONE, "") \
	X(Numbers, API_NOTHING, COUNT, NONE, "Numbers by name.") \
	X(RatesByReason, API_NOTHING, RATES, NONE, "Lists of numbers by name.") \
	X(Anything, API_NOTHING, OBJECT, NONE, "") \
	X(Left, API_NOTHING, NONE, NONE, "") \
	X(WorkerCounters, API_WORKER_COUNTERS, COUNT, NONE, "") \
	X(PortCounters, API_PORT_COUNTERS, OBJECT, NONE, "Numbers, or one for each priority.") \
	X(JobCounters, API_JOB_COUNTERS, COUNT, NONE, "") \
	X(Counters, API_COUNTERS, NONE, NONE, \
		"The counters of docs/counters.md, under the names of that page.") \
	X(Buffers, API_BUFFERS, NONE, NONE, "") \
	X(Latency, API_LATENCY, NONE, NONE, "") \
	X(RefusedParent, API_REFUSED_PARENT, NONE, NONE, "") \
	X(Parent, API_PARENT_ALL, NONE, NONE, "") \
	X(Tree, API_TREE, NONE, NONE, "") \
	X(Child, API_CHILD, NONE, NONE, "A source that is a switch.") \
	X(Source, API_SOURCE_ALL, NONE, NONE, "") \
	X(Member, API_MEMBER_ALL, NONE, NONE, "") \
	X(Job, API_JOB, NONE, ALL, "") \
	X(Jobs, API_JOBS, NONE, NONE, "") \
	X(Deleted, API_DELETED, NONE, NONE, "") \
	X(JobState, API_JOB_STATE, NONE, NONE, "") \
	X(Tokens, API_TOKENS, NONE, NONE, "") \
	X(Switch, API_SWITCH, NONE, NONE, "") \
	X(Joined, API_JOINED, NONE, HOST, "What the host needs.") \
	X(WaitsFor, API_WAITS_FOR, NONE, NONE, "") \
	X(Block, API_BLOCK, NONE, NONE, "") \
	X(Blocks, API_BLOCKS, NONE, NONE, "") \
	X(Cause, API_CAUSE_ALL, NONE, NONE, "Why a job does not progress, or what else is wrong.") \
	X(PortHistory, API_PORT_HISTORY, NONE, NONE, "") \
	X(JobHistory, API_JOB_HISTORY, NONE, NONE, "") \
	X(History, API_HISTORY, NONE, NONE, \
		"All lists have the same length, up to 300; null: no sample, because the job did " \
		"not exist.") \
	X(Tenant, API_TENANT, NONE, NONE, "") \
	X(Tenants, API_TENANTS, NONE, NONE, "") \
	X(Column, API_COLUMN, NONE, NONE, "") \
	X(ProgramTable, API_PROGRAM_TABLE, NONE, NONE, "") \
	X(Sidecar, API_SIDECAR, NONE, NONE, "") \
	X(ProgramBrief, API_PROGRAM_BRIEF, NONE, NONE, "") \
	X(Program, API_PROGRAM, NONE, NONE, "") \
	X(Programs, API_PROGRAMS, NONE, NONE, "") \
	X(ProgramState, API_PROGRAM_STATE, NONE, NONE, "") \
	X(GraphSegment, API_GRAPH_SEGMENT, NONE, NONE, "") \
	X(GraphProgram, API_GRAPH_PROGRAM, NONE, NONE, "") \
	X(Graph, API_GRAPH, NONE, NONE, "") \
	X(Step, API_STEP, NONE, NONE, "") \
	X(Simulation, API_SIMULATION, NONE, NONE, "") \
	X(Reloaded, API_RELOADED, NONE, NONE, \
		"The numbers of jobs of the configuration by change.") \
	X(Log, API_LOG, NONE, NONE, "") \
	X(FaultRule, API_FAULT_RULE, NONE, FAULT, "") \
	X(Faults, API_FAULTS, NONE, NONE, "") \
	X(Filter, API_FILTER, NONE, NONE, "") \
	X(Filters, API_FILTERS, NONE, NONE, "") \
	X(FilterGone, API_FILTER_GONE, NONE, NONE, "")

#define API_NOTHING(X, E)
#define API_PARENT_ALL(X, E) API_PARENT_GIVEN(X, E) API_PARENT(X, E)
#define API_SOURCE_ALL(X, E) API_SOURCE(X, E) API_SOURCE_SWITCH(X, E)
#define API_MEMBER_ALL(X, E) API_SOURCE_ALL(X, E) API_MEMBER(X, E)
#define API_PROGRAM(X, E)    API_PROGRAM_BRIEF(X, E) API_PROGRAM_MORE(X, E)
#define API_CAUSE_ALL(X, E)  API_CAUSE(X, E) API_CAUSE_MORE(X, E)
/* clang-format on */

#endif
