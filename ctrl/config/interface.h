/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel interfaces of this network namespace. */
#ifndef CTRL_INTERFACE_H
#define CTRL_INTERFACE_H

#include <stdint.h>

/*
 * Give an interface an IPv4 address (host order) and prefix length [1, 30], and bring it up.
 * 0 or -errno (-ENODEV: there is none, -EPERM: CAP_NET_ADMIN is missing).
 */
int ctrl_interface_set(const char *name, uint32_t address, uint8_t prefix);

/* MTU in bytes, or -errno (-ENODEV: there is no such interface). */
int ctrl_interface_mtu(const char *name);

/* 1 when the interface is up, 0 when not, or -errno. */
int ctrl_interface_is_up(const char *name);

/*
 * 1 when the kernel answers there, with this interface's MAC address, ARP requests for addresses of
 * other interfaces; 0 when not, or -errno.
 */
int ctrl_interface_answers_arp(const char *name);

/* 1 when the kernel puts received TCP segments together (GRO or LRO), 0 when not, or -errno. */
int ctrl_interface_merges(const char *name);

#endif
