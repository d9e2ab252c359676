/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports that libweir has and loads. weir-transport.h is the contract of one. */
#ifndef APPS_LIBWEIR_TRANSPORT_H
#define APPS_LIBWEIR_TRANSPORT_H

#include "apps/libweir/weir-transport.h"

/* transport.c: the operations of the transport that this process uses. NULL with a text: it cannot
 * be loaded. */
const struct weir_transport_ops *weir_transport_find(int *code, char *text, size_t size);

/* udp.c */
extern const struct weir_transport_ops weir_transport_udp;

/* May repetition repair this errno? True for errors of the network. */
bool weir_soft_error(int error);

#endif
