// SPDX-License-Identifier: GPL-2.0
// What is looked for in the page's modules and in the tests of this folder: names that are not there or not used, and
// what is rarely meant.
import globals from "globals";

const rules = {
	"no-undef": "error",
	"no-unused-vars": "error",
	"no-var": "error",
	"prefer-const": "error",
	eqeqeq: ["error", "always", {null: "ignore"}],
	"no-shadow": "error",
	"no-implicit-coercion": "error",
	"no-eval": "error",
	"no-implied-eval": "error",
	"no-unreachable": "error",
	"no-dupe-keys": "error",
	"no-import-assign": "error",
	"no-fallthrough": "error",
	"no-self-compare": "error",
	"no-unused-expressions": "error",
};

export default [
	{files: ["web/**/*.js"], languageOptions: {globals: globals.browser}, rules},
	{files: ["tests/web/*.mjs"], languageOptions: {globals: {...globals.node, ...globals.browser}}, rules},
];
