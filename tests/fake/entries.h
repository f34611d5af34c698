/* SPDX-License-Identifier: GPL-2.0 */
/*
 * entries.h: what the functions of a libcuda may begin with, for a fake of each kind. FORM(name) is an entry in
 * assembly that goes on to body_<name>, which is the function that cuda.c has. The forms, by -DFAKE_ENTRY_<form>: thunk
 * drivers 525, 535 and 550: a compare with a variable, a jump on it, a jump through a slot; arm64 has it too pad_thunk
 * the same behind a landing pad; arm64 has it too frame the same check behind a frame, as newer drivers are said to
 * have it sub a frame without a push: nothing there is emulated, and behind it the stack is another flags a compare of
 * two registers loop the place that would do is jumped to from behind long_nop a nop of five bytes, as
 * -fpatchable-function-entry makes
 */
#ifndef FAKE_ENTRIES_H
#define FAKE_ENTRIES_H

#define CHECK_OFF "cmpl $0x321cba00, fake_driver_off(%rip)\n"
#define GO(name)  "jmp *slot_" name "(%rip)\n"
#define OFF       "mov $4, %eax\n" /* CUDA_ERROR_DEINITIALIZED */
/* arm64, as other tools say that its drivers have the check: the constant is made first, two instructions for it. */
#define MAKE_CONSTANT "mov w17, #0xba00\nmovk w17, #0x321c, lsl #16\n"
#define CHECK_ARM64                                                                                                    \
	"adrp x16, fake_driver_off\nldr w16, [x16, #:lo12:fake_driver_off]\n"                                          \
	"cmp w16, w17\nb.eq 1f\n"
#define GO_ARM64(name) "adrp x16, slot_" name "\nldr x16, [x16, #:lo12:slot_" name "]\nbr x16\n"
#define OFF_ARM64      "1: mov w0, #4\nret\n"

#if defined(__aarch64__) && defined(FAKE_ENTRY_thunk)
#define FORM(name) MAKE_CONSTANT CHECK_ARM64 GO_ARM64(name) OFF_ARM64
#elif defined(__aarch64__) && defined(FAKE_ENTRY_pad_thunk)
#define FORM(name) "bti c\n" MAKE_CONSTANT CHECK_ARM64 GO_ARM64(name) OFF_ARM64
#elif defined(FAKE_ENTRY_thunk)
#define FORM(name) CHECK_OFF "je 1f\n" GO(name) ".nops 6\n1: " OFF "ret\n"
#elif defined(FAKE_ENTRY_pad_thunk)
#define FORM(name) "endbr64\n" CHECK_OFF "je 1f\n" GO(name) "1: " OFF "ret\n"
#elif defined(FAKE_ENTRY_frame)
#define FORM(name) "push %rbp\nmov %rsp, %rbp\n" CHECK_OFF "je 1f\npop %rbp\n" GO(name) "1: " OFF "pop %rbp\nret\n"
#elif defined(FAKE_ENTRY_sub)
#define FORM(name) "sub $8, %rsp\n" CHECK_OFF "je 1f\nadd $8, %rsp\n" GO(name) "1: " OFF "add $8, %rsp\nret\n"
#elif defined(FAKE_ENTRY_flags)
#define FORM(name) "cmp %r11, %r11\nje 1f\n" OFF "ret\n1: " GO(name)
#elif defined(FAKE_ENTRY_loop)
#define FORM(name) "mov $3, %r11d\n1: nop\ndec %r11d\njnz 1b\n" GO(name)
#elif defined(FAKE_ENTRY_long_nop)
#define FORM(name) ".byte 0x0f, 0x1f, 0x44, 0, 0\n" GO(name)
#endif

#ifdef FORM
#define FAKE_BODY(name) __asm__("body_" #name)
#define FAKE_VISIBLE    __attribute__((visibility("hidden"), noinline))
__attribute__((visibility("hidden"))) int fake_driver_off;
/* clang-format off */
#define ENTRY(name, args) \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n.balign 16\n" #name ":\n" FORM(#name) \
		".size " #name ", . - " #name "\n" \
		".pushsection .data.rel, \"aw\"\n.balign 8\nslot_" #name ": .quad body_" #name "\n.popsection\n");
/* clang-format on */
#else
#define FAKE_BODY(name)
#define FAKE_VISIBLE __attribute__((visibility("default"), noinline))
#define ENTRY(name, args)
#endif

#endif
