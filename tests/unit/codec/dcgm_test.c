/* SPDX-License-Identifier: GPL-2.0 */
/* dcgm_test.c: pages of a dcgm-exporter, cut at every byte, and what is no such page. */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define A      "GPU-11111111-2222-3333-4444-555555555555"
#define WHO(u) "{gpu=\"0\",UUID=\"" u "\",pci_bus_id=\"00000000:1B:00.0\",device=\"nvidia0\",modelName=\"NVIDIA H100\"}"

/* As the exporter's documentation has it. */
static const char page[] =
	"# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).\n"
	"# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"
	"DCGM_FI_DEV_SM_CLOCK" WHO(
		A) " 1980\n"
		   "DCGM_FI_DEV_GPU_UTIL" WHO(
			   A) " 87\n"
			      "DCGM_FI_DEV_POWER_USAGE" WHO(
				      A) " 413.207000\n"
					 "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" WHO(
						 A) " 5.21e+10\n"
						    "DCGM_FI_DEV_GPU_TEMP" WHO(
							    A) " 61\r\n"
							       "DCGM_FI_PROF_SM_ACTIVE" WHO(
								       A) " 0.731250\n"
									  "DCGM_FI_DEV_FB_USED" WHO(
										  A) " 1024 1700000000000\n"
										     "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS" WHO(
											     A) " 36\n"
												"DCGM_FI_DEV_MEM_COPY_UTIL" WHO(
													A) " 12\n"
													   "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu=\"1\",UUID=\"GPU-bbbbbbbb\",GPU_I_ID=\"\"} 3\n"
													   "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-bbbbbbbb\",GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"7\"} 99\n";

static struct zn_dcgm_parse p;

static void check_page(void)
{
	const struct zn_reading *r = &p.reading[0];

	CHECK_EQ(p.count, 2);
	CHECK_STR(r->uuid, A);
	CHECK_STR(r->pci, "0000:1b:00.0");
	CHECK_EQ(__builtin_popcountll(r->known), 8);
	CHECK_EQ(r->value[ZN_FIGURE_CLOCK], 1980000000);
	CHECK_EQ(r->value[ZN_FIGURE_UTILIZATION], 870000);
	CHECK_EQ(r->value[ZN_FIGURE_POWER], 413207);
	CHECK_EQ(r->value[ZN_FIGURE_ENERGY], 52100000000);
	CHECK_EQ(r->value[ZN_FIGURE_TEMPERATURE], 61000);
	CHECK_EQ(r->value[ZN_FIGURE_SM_ACTIVE], 731250);
	CHECK_EQ(r->value[ZN_FIGURE_VRAM_USED], 1024ULL << 20);
	CHECK_EQ(r->value[ZN_FIGURE_THROTTLE], 1 << ZN_THROTTLE_POWER | 1 << ZN_THROTTLE_THERMAL);
	CHECK_EQ(p.reading[1].known, 1ULL << ZN_FIGURE_ECC_UNCORRECTED);
	CHECK_EQ(p.reading[1].value[ZN_FIGURE_ECC_UNCORRECTED], 3);
}

/* From heap blocks of exactly the size of each part. */
static void take(const char *text, size_t len)
{
	char *block = malloc(len ? len : 1);

	memcpy(block, text, len);
	zn_dcgm_take(&p, block, len);
	free(block);
}

T(a_page_cut_anywhere)
{
	for (size_t cut = 0; cut < sizeof(page); cut++) {
		zn_dcgm_init(&p);
		take(page, cut);
		take(page + cut, sizeof(page) - 1 - cut);
		check_page();
	}
}

/* Nothing is made of any of these. */
T(hostile_lines)
{
	static const char *const lines[] = {"DCGM_FI_DEV_GPU_UTIL" WHO(A) " -1", "DCGM_FI_DEV_GPU_UTIL" WHO(A) " nan",
		"DCGM_FI_DEV_GPU_UTIL" WHO(A) " inf", "DCGM_FI_DEV_GPU_UTIL" WHO(A) " 9223372036854775792",
		"DCGM_FI_DEV_GPU_UTIL" WHO(A) " 12x", "DCGM_FI_DEV_GPU_UTIL" WHO(A), "DCGM_FI_DEV_GPU_UTIL" WHO(A) " ",
		"DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-1\n", "DCGM_FI_DEV_GPU_UTIL{UUID=\"" A,
		"DCGM_FI_DEV_GPU_UTIL{UUID=\"" A "\" 5", "DCGM_FI_DEV_GPU_UTIL{UUID=\"" A "\\\"} 5",
		"DCGM_FI_DEV_GPU_UTIL{UUID=} 5", "DCGM_FI_DEV_GPU_UTIL{} 5",
		"DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-<script>x\"} 5", "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 5", "{", "}", "{}",
		"DCGM_FI_DEV_GPU_UTIL{=\"\"} 5", "DCGM_FI_DEV_GPU_UTIL{,,,} 5", "DCGM_FI_DEV_GPU_UTIL{UUID=\"\"} 5"};

	for (size_t i = 0; i < ZN_LEN(lines); i++) {
		zn_dcgm_init(&p);
		take(lines[i], strlen(lines[i]));
		take("\n", 1);
		CHECK_EQ(p.count, 0);
	}
}

/* A line beyond the limit is passed over, and so are GPUs beyond it. */
T(bounds)
{
	char line[128];

	zn_dcgm_init(&p);
	for (int i = 0; i < 100000; i++)
		take("DCGM_FI_DEV_GPU_UTIL{UUID=\"", 27);
	take("\n", 1);
	CHECK_EQ(p.count, 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-%08d\"} 5\n", i);
		take(line, strlen(line));
	}
	CHECK_EQ(p.count, ZN_GPUS_MAX);
}

int main(void)
{
	RUN(a_page_cut_anywhere);
	RUN(hostile_lines);
	RUN(bounds);
	return t_end();
}
