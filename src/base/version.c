/* SPDX-License-Identifier: GPL-2.0 */
/* version.c: which version this is, of the file VERSION, and which commit it was made of. The Makefile knows both. */
#include "zernel.h"

#ifndef ZN_VERSION
#define ZN_VERSION "unknown"
#endif
#ifndef ZN_COMMIT
#define ZN_COMMIT "unknown"
#endif

const char zn_version[] = ZN_VERSION;
const char zn_commit[] = ZN_COMMIT;
