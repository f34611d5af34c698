// SPDX-License-Identifier: GPL-2.0
// The requests of otlp.c, read with OpenTelemetry's own message definitions, against the text of /metrics of the same
// moment: every series is there once, of the right kind, with the same value. Last line: "N passed, N failed".
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const require = createRequire(import.meta.url);
const { opentelemetry: { proto } } = require('@opentelemetry/otlp-transformer/build/src/generated/root.js');
const Request = proto.collector.metrics.v1.ExportMetricsServiceRequest;

const DUMP = new URL('../../build/test/otlp_dump', import.meta.url).pathname;
const OWN = /^process_cpu|^zernel_scrape_/; // other at each reading
const WITHIN = 0.032;
let passed = 0, failed = 0;

function test(name, body) {
  try {
    body();
    passed++;
  } catch (error) {
    failed++;
    console.log(`FAILED ${name}: ${error.message}`);
  }
}

const key = (name, labels) => `${name} ${JSON.stringify(Object.entries(labels).sort())}`;

// {series: value} and {family: type} of the text.
function readText(text) {
  const series = new Map(), types = new Map();
  for (const line of text.split('\n')) {
    const type = /^# TYPE (\S+) (\S+)/.exec(line), m = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (type) types.set(type[1], type[2]);
    if (!m) continue;
    const labels = {};
    for (const [, name, value] of (m[2] ?? '').matchAll(/([a-z_]+)="((?:\\.|[^"\\])*)"/g))
      if (name !== 'pid' || value) labels[name] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
    series.set(key(m[1], labels), { name: m[1], labels, value: Number(m[3].replace('+Inf', 'Infinity')) });
  }
  return { series, types };
}

function attributes(list) {
  const out = {};
  for (const { key: name, value } of list) {
    assert.ok(!(name in out), `${name} twice`);
    out[name === 'process.pid' ? 'pid' : name] = name === 'process.pid' ? String(value.intValue) : value.stringValue;
    assert.equal(typeof out[name === 'process.pid' ? 'pid' : name], 'string', name);
  }
  return out;
}

// Bytes that no decoder of ours knows would be gone after decoding and encoding.
function decode(bytes) {
  const request = Request.decode(bytes);
  assert.equal(Request.encode(request).finish().length, bytes.length, 'nothing is unknown, and each form the shortest');
  return request;
}

function dump(bytes, ...more) {
  const folder = mkdtempSync(join(tmpdir(), 'zernel-otlp-'));
  try {
    const told = execFileSync(DUMP, [folder, String(bytes), ...more], { encoding: 'utf8' });
    const [count, ms] = told.trim().split(' ').map(Number);
    const parts = [...Array(count).keys()].map((i) => readFileSync(join(folder, `${i}.pb`)));
    return { ms, parts, requests: parts.map(decode), ...readText(readFileSync(join(folder, 'metrics'), 'utf8')) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

// [{name, unit, kind, labels, point, metric}] of all requests.
function points(got) {
  const out = [];
  for (const request of got.requests) {
    assert.equal(request.resourceMetrics.length, 1);
    const { resource, scopeMetrics } = request.resourceMetrics[0];
    assert.deepEqual(attributes(resource.attributes),
      { 'service.name': 'zerneld', 'service.version': '1.2-test', 'service.instance.id': 'node1',
      'host.name': 'node1' });
    assert.equal(scopeMetrics.length, 1);
    assert.equal(scopeMetrics[0].scope.name, 'zerneld');
    for (const metric of scopeMetrics[0].metrics) {
      const kind = metric.data, data = metric[kind];
      assert.ok(data.dataPoints.length > 0, metric.name);
      for (const point of data.dataPoints)
        out.push({ name: metric.name, unit: metric.unit, kind, data, point, labels: attributes(point.attributes) });
    }
  }
  return out;
}

const near = (a, b) => a === b || Math.abs(a / b - 1) <= WITHIN;

function quantile(point, q) {
  const scale = 2 ** point.scale, counts = point.positive.bucketCounts.map(Number);
  let rank = q * Number(point.count) - Number(point.zeroCount);
  for (const [i, n] of counts.entries()) {
    if (n && rank <= n) {
      const low = 2 ** ((point.positive.offset + i) / scale), high = 2 ** ((point.positive.offset + i + 1) / scale);
      return low + (high - low) * rank / n;
    }
    rank -= n;
  }
  throw new Error('beyond the last bucket');
}

// What the text has of a point; each is taken out of `left`.
function take(left, name, labels) {
  const k = key(name, labels), s = left.get(k);
  assert.ok(s, `${k} is not in the text, or there twice`);
  left.delete(k);
  return s.value;
}

function exponential(left, p) {
  const { point, labels } = p, base = p.name.replace('_hist_seconds', '_seconds'), count = Number(point.count);
  const sum = point.positive.bucketCounts.reduce((n, c) => n + Number(c), Number(point.zeroCount));
  assert.equal(sum, count, `${p.name}: all that its buckets have`);
  assert.equal(point.scale, 5);
  assert.equal(point.max >= point.sum / count, true);
  for (const name of [base, p.name]) {
    assert.equal(take(left, `${name}_sum`, labels), point.sum);
    assert.equal(take(left, `${name}_count`, labels), count);
  }
  for (const q of ['0.5', '0.99']) {
    const told = take(left, base, { ...labels, quantile: q });
    if (count * (1 - Number(q)) >= 10) assert.ok(near(quantile(point, Number(q)), told), `${p.name} ${q}`);
  }
  const classic = [...left.values()].filter((s) => s.name === `${p.name}_bucket` &&
    key('', { ...s.labels, le: '' }) === key('', { ...labels, le: '' }));
  assert.equal(classic.length, 15);
  for (const s of classic) take(left, s.name, s.labels);
}

function summary(left, { name, point, labels }) {
  assert.equal(take(left, `${name}_sum`, labels), point.sum);
  assert.equal(take(left, `${name}_count`, labels), Number(point.count));
  for (const q of point.quantileValues) assert.equal(take(left, name, { ...labels, quantile: String(q.quantile) }),
  	q.value);
}

function compare(got) {
  const left = new Map(got.series), kinds = { gauge: 'gauge', sum: 'counter', exponentialHistogram: 'histogram',
  	summary: 'summary' };
  for (const p of points(got)) {
    assert.equal(got.types.get(p.name), kinds[p.kind], p.name);
    if (p.kind === 'exponentialHistogram') exponential(left, p);
    else if (p.kind === 'summary') summary(left, p);
    else {
      const value = take(left, p.name, p.labels);
      if (!OWN.test(p.name)) assert.equal(p.point.asDouble, value, `${p.name} ${JSON.stringify(p.labels)}`);
    }
  }
  assert.deepEqual([...left.keys()], [], 'series that no request has');
}

const whole = dump(8 << 20);
test('one large request has it all', () => {
  assert.equal(whole.parts.length, 1);
  assert.ok(whole.series.size > 1000);
  compare(whole);
});
for (const bytes of [256 << 10, 40000, 33333, 32 << 10])
  test(`requests of up to ${bytes} bytes`, () => {
    const got = dump(bytes);
    assert.equal(got.parts.length > 1, bytes < whole.parts[0].length);
    for (const part of got.parts) assert.ok(part.length <= bytes, `${part.length}`);
    compare(got);
  });
test('units, kinds and times', () => {
  const units = { seconds: 's', bytes: 'By', ratio: '1' };
  for (const { name, unit, kind, data, point, labels } of points(whole)) {
    assert.equal(unit ?? '', units[/_(seconds|bytes|ratio)(_total)?$/.exec(name)?.[1]] ?? '', name);
    assert.equal(Number(point.timeUnixNano), whole.ms * 1e6);
    if (kind === 'gauge' || name === 'zernel_gpu_ecc_errors_total') assert.equal(Number(point.startTimeUnixNano), 0);
    else assert.ok(Number(point.startTimeUnixNano) > whole.ms * 1e6 - 78e9 &&
    	Number(point.startTimeUnixNano) <= whole.ms * 1e6, name);
    if (kind === 'sum') assert.ok(data.isMonotonic && name.endsWith('_total'), name);
    if (kind === 'sum' || kind === 'exponentialHistogram') assert.equal(data.aggregationTemporality, 2);
    if ('pid' in labels) assert.ok('job_id' in labels, `${name} names its job`);
  }
});
test('requests of a server go by the names of the conventions too', () => {
  const got = dump(8 << 20, 'server'), all = points(got).filter((p) => p.name.startsWith('gen_ai.'));
  const operations = { '/v1/chat/completions': 'chat', '/v1/completions': 'text_completion',
    '/v1/embeddings': 'embeddings', '/completion': 'text_completion' };
  assert.deepEqual(new Set(all.map((p) => p.name)),
    new Set(['gen_ai.server.request.duration', 'gen_ai.server.time_to_first_token']));
  for (const { name, unit, kind, data, point, labels } of all) {
    const route = labels['http.route'], ours = name.endsWith('duration') ? 'duration' : 'first_event';
    assert.deepEqual([unit, kind, data.aggregationTemporality], ['s', 'exponentialHistogram', 2]);
    assert.deepEqual(labels, { pid: labels.pid, 'gen_ai.operation.name': operations[route],
      'gen_ai.provider.name': '_OTHER', 'http.route': route });
    assert.equal(Number(point.count),
      got.series.get(key(`zernel_request_${ours}_seconds_count`, { pid: labels.pid, route })).value);
  }
  const counts = [...got.series.values()]
    .filter((s) => /^zernel_request_(duration|first_event)_seconds_count$/.test(s.name));
  assert.ok(counts.length >= 4 && all.length === counts.length, `${all.length} of ${counts.length}`);
});
test('too little room', () => {
  assert.throws(() => dump((32 << 10) - 1));
});

console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
