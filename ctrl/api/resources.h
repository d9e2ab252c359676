/* SPDX-License-Identifier: BSD-3-Clause */
/* Every handler of the route table, by file; docs/openapi.yaml says what each answers. */
#ifndef CTRL_API_RESOURCES_H
#define CTRL_API_RESOURCES_H

struct api_call;

/* status.c */
void api_get_health(struct api_call *call);
void api_get_ready(struct api_call *call);
void api_get_status(struct api_call *call);

/* faults.c */
void api_get_faults(struct api_call *call);
void api_put_faults(struct api_call *call);
void api_delete_faults(struct api_call *call);

/* ports.c */
void api_get_ports(struct api_call *call);
void api_get_port(struct api_call *call);

/* counters.c */
void api_get_counters(struct api_call *call);

/* page.c */
void api_get_page(struct api_call *call);

/* jobs.c */
void api_get_jobs(struct api_call *call);
void api_get_job(struct api_call *call);

/* blocks.c */
void api_get_blocks(struct api_call *call);

/* jobs_change.c */
void api_post_jobs(struct api_call *call);
void api_patch_job(struct api_call *call);
void api_delete_job(struct api_call *call);

/* members.c */
void api_post_member(struct api_call *call);
void api_delete_member(struct api_call *call);

/* config.c */
void api_get_config(struct api_call *call);
void api_get_tenants(struct api_call *call);

/* reload.c */
void api_post_reload(struct api_call *call);

/* trace.c */
void api_get_trace(struct api_call *call);

/* metrics.c */
void api_get_metrics(struct api_call *call);

/* history.c */
void api_get_history(struct api_call *call);

#endif
