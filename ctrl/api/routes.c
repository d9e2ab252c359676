/* SPDX-License-Identifier: BSD-3-Clause */
/* The route table: one line per method and path; ctrl/api/call.h says how to add one. */
#include "ctrl/api/call.h"
#include "ctrl/api/resources.h"

/* clang-format off */
const struct api_route api_routes[] = {
	{API_GET, "/v1/health", API_PUBLIC, NULL, api_get_health},
	{API_GET, "/v1/ready", API_PUBLIC, NULL, api_get_ready},
	{API_GET, "/v1/status", API_PUBLIC, NULL, api_get_status},
	{API_GET, "/v1/ports", API_READ, NULL, api_get_ports},
	{API_GET, "/v1/ports/{name}", API_READ, NULL, api_get_port},
	{API_GET, "/v1/counters", API_READ, NULL, api_get_counters},
	{API_GET, "/v1/config", API_READ_ALL, NULL, api_get_config},
	{API_GET, "/v1/jobs", API_READ, NULL, api_get_jobs},
	{API_GET, "/v1/jobs/{name}", API_READ, NULL, api_get_job},
	{API_GET, "/v1/blocks", API_READ, "job|stuck|limit", api_get_blocks},
	{API_GET, "/v1/history", API_READ, NULL, api_get_history},
	{API_GET, "/v1/trace", API_ADMIN, "ms", api_get_trace},
	{API_POST, "/v1/jobs", API_CHANGE, NULL, api_post_jobs},
	{API_PATCH, "/v1/jobs/{name}", API_CHANGE, NULL, api_patch_job},
	{API_DELETE, "/v1/jobs/{name}", API_CHANGE, NULL, api_delete_job},
	{API_POST, "/v1/jobs/{name}/members", API_JOIN, NULL, api_post_member},
	{API_DELETE, "/v1/jobs/{name}/members/{rank}", API_JOIN, "membership", api_delete_member},
	{API_GET, "/v1/tenants", API_READ_ALL, NULL, api_get_tenants},
	{API_POST, "/v1/reload", API_ADMIN, NULL, api_post_reload},
	{API_GET, "/v1/faults", API_ADMIN, NULL, api_get_faults},
	{API_PUT, "/v1/faults", API_ADMIN, NULL, api_put_faults},
	{API_DELETE, "/v1/faults", API_ADMIN, NULL, api_delete_faults},
	{API_GET, "/metrics", API_PUBLIC, NULL, api_get_metrics},
	{API_GET, "/", API_PUBLIC, NULL, api_get_page},
	{API_GET, "/{file}", API_PUBLIC, NULL, api_get_page}, /* after all others of one segment */
};
/* clang-format on */

const size_t api_routes_count = sizeof(api_routes) / sizeof(api_routes[0]);
