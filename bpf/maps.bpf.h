/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The maps that all families share by descriptor, made from ZN_MAPS of zernel.h. A part of zernel.bpf.h.
 */
#ifndef ZN_MAPS_BPF_H
#define ZN_MAPS_BPF_H

#define ZN_MAP(name, kind, entries, key_type, value_type, flags)                                                       \
	struct {                                                                                                       \
		__uint(type, kind);                                                                                    \
		__uint(max_entries, entries);                                                                          \
		__uint(map_flags, flags);                                                                              \
		__type(key, key_type);                                                                                 \
		__type(value, value_type);                                                                             \
	} name SEC(".maps");
#define ZN_MAP_ARRAY(name, n, key, value)  ZN_MAP(name, BPF_MAP_TYPE_ARRAY, n, key, value, 0)
#define ZN_MAP_MAPPED(name, n, key, value) ZN_MAP(name, BPF_MAP_TYPE_ARRAY, n, key, value, BPF_F_MMAPABLE)
#define ZN_MAP_HASH(name, n, key, value)   ZN_MAP(name, BPF_MAP_TYPE_HASH, n, key, value, 0)
#define ZN_MAP_SPARSE                      ZN_MAP_HASH
#define ZN_MAP_PROGS(name, n, key, value)  ZN_MAP(name, BPF_MAP_TYPE_PROG_ARRAY, n, key, value, 0)
#ifdef ZN_NO_FETCH
#define ZN_MAP_PENDING ZN_MAP_HASH /* by owner */
#else
#define ZN_MAP_PENDING ZN_MAP_MAPPED
#endif
#define ZN_MAP_STACK(name, n, key, value)                                                                              \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_STACK);                                                                      \
		__uint(max_entries, n);                                                                                \
		__uint(value_size, sizeof(value));                                                                     \
	} name SEC(".maps");

#define X(NAME, name, kind, entries, key, value, ...) ZN_MAP_##kind(name, entries, key, value)
ZN_MAPS(X)
#undef X
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, ZN_RING_BYTES);
} events SEC(".maps");

#endif
