/* SPDX-License-Identifier: GPL-2.0 */
/*
 * xid_about.c: what NVIDIA's numbers of errors mean, how bad they are, and what to do: one table. NVIDIA's list of XIDs
 * is the authority; a number that is not here is one of which nothing is said.
 */
#include "zernel.h"

#define RERUN                                                                                                          \
	"a bug of the program: run it under compute-sanitizer; look at the hardware if other programs have it on this GPU too"
#define RESET   "drain the node and reset the GPU (nvidia-smi -r); replace it if this comes again"
#define REBOOT  "drain the node and restart it; if the error comes again, have GPU, slot and power looked at"
#define LINK    "look at nvidia-smi nvlink -e; reset the GPUs of this link, and have it looked at if it comes again"
#define RETIRED "the driver sets it aside at the next reset of the GPU: reset it once its jobs are done"
#define NVLINK_NONFATAL                                                                                                \
	"link", "warning", "an NVLink had an error that is not fatal",                                                 \
		"look at nvidia-smi nvlink -e if programs fail, or if it comes again and again"

static const struct zn_xid_about table[] = {
	{13, "application", "warning", "a kernel of a program failed (graphics engine exception)", RERUN},
	{31, "application", "warning", "a program used an address of GPU memory that is not its own", RERUN},
	{32, "link", "warning", "what the driver sent to the GPU arrived damaged", REBOOT},
	{38, "firmware", "critical", "the firmware of the GPU failed", RESET},
	{43, "application", "warning", "a program of this GPU failed and was stopped", RERUN},
	{45, "application", "info", "what was left of a program was cleared away, after another error or a kill",
		"look at the error before it; without one somebody ended the program"},
	{46, "firmware", "critical", "the GPU stopped working", RESET},
	{48, "memory", "critical", "GPU memory has an error that ECC could not correct", RESET},
	{54, "power", "critical", "the GPU has no auxiliary power",
		"drain the node and look at the GPU's power cables"},
	{61, "firmware", "critical", "the GPU's internal controller stopped", RESET},
	{62, "firmware", "critical", "the GPU's internal controller halted", RESET},
	{63, "memory", "warning", "a part of GPU memory is bad and is to be set aside", RETIRED},
	{64, "memory", "critical", "a bad part of GPU memory could not be set aside",
		"drain the node and have the GPU replaced"},
	{69, "application", "warning", "a program gave the GPU an order that it does not know", RERUN},
	{74, "link", "critical", "an NVLink has errors", LINK},
	{79, "link", "critical", "the GPU has fallen off the bus: nothing can be run on it", REBOOT},
	{92, "memory", "warning", "GPU memory has many errors that ECC corrects", RETIRED},
	{94, "memory", "warning", "GPU memory has an error that hit one program alone, which was ended",
		"start that job again; reset the GPU once its other jobs are done"},
	{95, "memory", "critical", "GPU memory has an error that may have hit all programs of the GPU", RESET},
	{109, "application", "warning", "a program did not give the GPU back in time", RERUN},
	{119, "firmware", "critical", "the firmware of the GPU (GSP) does not answer", RESET},
	{120, "firmware", "critical", "the firmware of the GPU (GSP) failed", RESET},
	{121, "link", "warning", "the link between CPU and GPU has errors (C2C)", REBOOT},
	{122, "firmware", "warning", "the GPU's internal controller does not answer (SPI)", RESET},
	{123, "firmware", "warning", "the GPU's internal controller does not answer (SPI, PMU)", RESET},
	{137, "application", "warning", "a program used memory of another GPU that it may not use", RERUN},
	{140, "memory", "critical", "GPU memory has an error that ECC could not correct", RESET},
	{143, "firmware", "critical", "the GPU could not be started", REBOOT},
	{144, "link", "critical", "an NVLink has errors", LINK},
	{145, "link", "critical", "an NVLink has errors", LINK},
	{146, "link", "critical", "an NVLink has errors", LINK},
	{147, "link", "critical", "an NVLink has errors", LINK},
	{148, "link", "critical", "an NVLink has errors", LINK},
	{149, "link", "critical", "an NVLink has errors", LINK},
	{150, "link", "critical", "an NVLink has errors", LINK},
	{154, "firmware", "critical", "the driver says that the GPU must be recovered",
		"the line in the kernel's log says how: reset, restart of the node, or drain"},
};

/* Of lines that say themselves that nothing is broken. */
static const struct zn_xid_about nonfatals[] = {
	{144, NVLINK_NONFATAL},
	{145, NVLINK_NONFATAL},
	{146, NVLINK_NONFATAL},
	{147, NVLINK_NONFATAL},
	{148, NVLINK_NONFATAL},
	{149, NVLINK_NONFATAL},
	{150, NVLINK_NONFATAL},
	{154, "firmware", "info", "the driver says that the GPU need not be recovered any more",
		"it was reset: nothing is to be done"},
};

const struct zn_xid_about *zn_xid_about(uint32_t xid, bool nonfatal)
{
	const struct zn_xid_about *in = nonfatal ? nonfatals : table;
	size_t count = nonfatal ? ZN_LEN(nonfatals) : ZN_LEN(table);

	for (size_t i = 0; i < count; i++)
		if (in[i].xid == xid)
			return &in[i];
	return NULL;
}
