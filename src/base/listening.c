/* SPDX-License-Identifier: GPL-2.0 */
/*
 * listening.c: which user listens at a TCP address of this machine, or has taken a connection, by the kernel's list of
 * sockets: the one who made the socket, whatever he has become since.
 *
 * Limits: users have the numbers of the user namespace of who reads the list.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zernel.h"

#define LISTENS "0A"
#define IS_OPEN "01"

struct search {
	char exact[40], any[40]; /* "0100007F:6D7C"; ":6D7C": whatever the address */
	char peer[40];           /* of the connection from there; empty: of what listens */
	uint32_t uid[2];         /* whose it is; ZN_UNKNOWN: nobody's, several users', or closed */
	bool there[2];
};

struct list {
	const char *proc;
	size_t most; /* bytes of each that are read */
};

/* An address as in the kernel's list: its bytes as words of the machine, in hexadecimal; the last words alone. */
static void write_address(char to[40], const uint32_t word[4], size_t words, uint16_t port)
{
	for (size_t i = 0; i < words; i++)
		snprintf(to + 8 * i, 9, "%08X", word[4 - words + i]);
	snprintf(to + 8 * words, 6, ":%04X", port);
}

static bool is_wanted(const char *address, const char *wanted)
{
	const char *port = strchr(address, ':');

	return port && !strcmp(*wanted == ':' ? port : address, wanted);
}

/* The kernel says 0 of a connection that its user has closed. */
static uint32_t read_user(const struct search *s, char *const field[8])
{
	return *s->peer && strcmp(field[3], IS_OPEN) ? ZN_UNKNOWN : (uint32_t)strtoul(field[7], NULL, 10);
}

/* " 0: 0100007F:6D7C 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 ...". False: those that listen are
 * over, and no other is looked for. */
static bool note_socket(struct search *s, char *line)
{
	char *save = NULL, *field[8] = {NULL};
	uint32_t uid;

	for (size_t i = 0; i < ZN_LEN(field); i++)
		if (!(field[i] = strtok_r(i ? NULL : line, " ", &save)))
			return true;
	if (!strchr(field[0], ':') || !strcmp(field[0], "sl")) /* the line above all */
		return true;
	if (strcmp(*s->peer ? field[2] : field[3], *s->peer ? s->peer : LISTENS) != 0)
		return *s->peer;
	uid = read_user(s, field);
	for (int i = 0; i < 2; i++) {
		if (!is_wanted(field[1], i ? s->any : s->exact))
			continue;
		s->uid[i] = s->there[i] && s->uid[i] != uid ? ZN_UNKNOWN : uid;
		s->there[i] = true;
	}
	return true;
}

/* Whole lines of what there is; how many bytes that was. */
static size_t take_lines(struct search *s, char *text, bool *goes_on)
{
	char *at = text, *end;

	while (*goes_on && (end = strchr(at, '\n'))) {
		*end = 0;
		*goes_on = note_socket(s, at);
		at = end + 1;
	}
	return (size_t)(at - text);
}

/* False: the list is longer than is read, so that it is not known who listens. No list: nobody does. */
static bool read_sockets(struct search *s, const char *proc, const char *table, size_t most)
{
	char path[ZN_TEXT_MAX], text[2 * 4096 + 1];
	size_t total = 0, len = 0, used;
	bool goes_on = true;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/net/%s", proc, table);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && goes_on && total < most && (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0) {
		total += (size_t)n;
		len += (size_t)n;
		text[len] = 0;
		used = take_lines(s, text, &goes_on);
		len -= used;
		memmove(text, text + used, len);
	}
	if (fd >= 0)
		close(fd);
	return total < most;
}

/* As an address of IPv6. False: it is any address. */
static bool read_address(const struct sockaddr *at, uint32_t word[4], uint16_t *port)
{
	const struct sockaddr_in6 *v6 = (const void *)at;
	const struct sockaddr_in *v4 = (const void *)at;

	if (at->sa_family == AF_INET6) {
		memcpy(word, &v6->sin6_addr, sizeof(v6->sin6_addr));
		*port = ntohs(v6->sin6_port);
		return !IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
	}
	word[2] = htonl(0xffff);
	word[3] = v4->sin_addr.s_addr;
	*port = ntohs(v4->sin_port);
	return v4->sin_addr.s_addr != INADDR_ANY;
}

/* A socket of IPv6 may take IPv4 as well. */
static uint32_t find_user(const struct sockaddr *at, const struct sockaddr *from, const struct list *l, bool *there)
{
	struct search s = {.uid = {ZN_UNKNOWN, ZN_UNKNOWN}};
	bool v6 = at->sa_family == AF_INET6, one, whole = true;
	uint32_t word[4] = {0}, peer[4] = {0}, any[4] = {0};
	uint16_t port, peer_port;

	one = read_address(at, word, &port);
	for (int turn = 0; turn < (v6 && one ? 1 : 2) && whole && !s.there[0] && !s.there[1]; turn++) {
		bool table6 = v6 != turn;

		write_address(s.exact, word, !one ? 0 : table6 ? 4 : 1, port);
		write_address(s.any, any, table6 ? 4 : 1, port);
		if (from && read_address(from, peer, &peer_port))
			write_address(s.peer, peer, table6 ? 4 : 1, peer_port);
		whole = read_sockets(&s, l->proc, table6 ? "tcp6" : "tcp", l->most);
	}
	*there = s.there[0] || s.there[1] || !whole;
	return whole ? s.uid[!s.there[0]] : ZN_UNKNOWN;
}

uint32_t zn_listening_user(const struct sockaddr *at, const char *proc, size_t most, bool *there)
{
	return find_user(at, NULL, &(struct list){proc, most}, there);
}

uint32_t zn_listening_taken(const struct sockaddr *at, const struct sockaddr *from, bool *there)
{
	return find_user(at, from, &(struct list){"/proc", SIZE_MAX}, there);
}
