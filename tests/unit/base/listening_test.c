/* SPDX-License-Identifier: GPL-2.0 */
/* listening_test.c: whose socket listens at an address, by the kernel's own list and by lists that are written here. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zernel.h"
#include "folder.h"
#include "t.h"

#define HEAD "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
#define LINE(address, port, state, uid)                                                                                \
	"   0: " address ":" port " 00000000:0000 " state " 00000000:00000000 00:00000000 00000000 " uid "  0 1\n"
#define ZEROS "00000000000000000000000000000000"

/* An address and a port of it as the kernel's list has them, and who listens there; "": nobody. */
static const struct {
	const char *name, *address;
	const char *tcp, *tcp6;
	const char *user;
} rows[] = {
	{"nobody", "127.0.0.1", "", "", ""},
	{"itself", "127.0.0.1", LINE("0100007F", "2383", "0A", "1000"), "", "1000"},
	{"at all addresses", "127.0.0.1", LINE("00000000", "2383", "0A", "1000"), "", "1000"},
	{"the address comes before all", "127.0.0.1",
		LINE("00000000", "2383", "0A", "0") LINE("0100007F", "2383", "0A", "1000"), "", "1000"},
	{"another port", "127.0.0.1", LINE("0100007F", "2384", "0A", "1000"), "", ""},
	{"another address", "127.0.0.1", LINE("0200007F", "2383", "0A", "1000"), "", ""},
	{"connections come behind", "127.0.0.1", LINE("0100007F", "2383", "01", "1000"), "", ""},
	{"IPv6 takes both", "127.0.0.1", "", LINE(ZEROS, "2383", "0A", "1000"), "1000"},
	{"IPv4 in IPv6", "127.0.0.1", "", LINE("0000000000000000FFFF00000100007F", "2383", "0A", "1000"), "1000"},
	{"IPv6", "::1", LINE("0100007F", "2383", "0A", "7"),
		LINE("00000000000000000000000001000000", "2383", "0A", "1000"), "1000"},
	{"IPv6 at all addresses", "::1", "", LINE(ZEROS, "2383", "0A", "1000"), "1000"},
	{"IPv4 is none of IPv6", "::1", LINE("00000000", "2383", "0A", "1000"), "", ""},
	{"all addresses: at one", "0.0.0.0", LINE("0200007F", "2383", "0A", "1000"), "", "1000"},
	{"all addresses of IPv6: at one of IPv4", "::", LINE("0200007F", "2383", "0A", "1000"), "", "1000"},
	{"two users", "127.0.0.1", LINE("0100007F", "2383", "0A", "1") LINE("0100007F", "2383", "0A", "2"), "",
		"4294967295"},
};

static struct zn_peer peer_of(const char *address, uint16_t port)
{
	struct zn_peer p;

	CHECK(zn_peer_read(&p, address, port));
	return p;
}

static void check_lists(void)
{
	char text[512], user[16];

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_peer p = peer_of(rows[i].address, 0x2383);
		uint32_t uid;
		bool there;

		t_begin(rows[i].name);
		snprintf(text, sizeof(text), HEAD "%s", rows[i].tcp);
		put("net/tcp", text);
		snprintf(text, sizeof(text), HEAD "%s", rows[i].tcp6);
		put("net/tcp6", text);
		uid = zn_listening_user(&p.address.any, root, SIZE_MAX, &there);
		snprintf(user, sizeof(user), "%u", uid);
		CHECK_EQ(there, *rows[i].user != 0);
		CHECK_STR(there ? user : "", rows[i].user);
	}
}

T(the_kernels_list)
{
	struct zn_peer p = peer_of("127.0.0.1", 0);
	socklen_t len = sizeof(p.address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool there;

	CHECK(!bind(fd, &p.address.any, p.len) && !getsockname(fd, &p.address.any, &len));
	zn_listening_user(&p.address.any, "/proc", SIZE_MAX, &there);
	CHECK(!there);
	CHECK(!listen(fd, 1));
	CHECK_EQ(zn_listening_user(&p.address.any, "/proc", SIZE_MAX, &there), geteuid());
	CHECK(there);
	close(fd);
	CHECK_EQ(zn_listening_user(&p.address.any, "/nowhere", SIZE_MAX, &there), ZN_UNKNOWN);
	CHECK(!there);
}

/* One who listens no more has a connection that he took. */
T(a_connection)
{
	struct zn_peer p = peer_of("127.0.0.1", 0), own;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
	    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(p.address);
	int taken;
	bool there;

	CHECK(!bind(listener, &p.address.any, p.len) && !listen(listener, 1) &&
		!getsockname(listener, &p.address.any, &len));
	CHECK(!connect(fd, &p.address.any, p.len) && !getsockname(fd, &own.address.any, &len));
	taken = accept(listener, NULL, NULL);
	close(listener);
	CHECK_EQ(zn_listening_taken(&p.address.any, &own.address.any, &there), geteuid());
	CHECK(there);
	close(taken);
	CHECK_EQ(zn_listening_taken(&p.address.any, &own.address.any, &there), ZN_UNKNOWN);
	CHECK(there);
	close(fd);
}

T(a_list_that_is_too_long)
{
	struct zn_peer p = peer_of("127.0.0.1", 0x2383);
	bool there;

	put("net/tcp", HEAD LINE("0100007F", "2384", "0A", "1"));
	put("net/tcp6", HEAD);
	CHECK_EQ(zn_listening_user(&p.address.any, root, 64, &there), ZN_UNKNOWN);
	CHECK(there);
}

int main(void)
{
	open_folder();
	check_lists();
	RUN(the_kernels_list);
	RUN(a_connection);
	RUN(a_list_that_is_too_long);
	close_folder();
	return t_end();
}
