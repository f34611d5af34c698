// SPDX-License-Identifier: GPL-2.0
// ws_client.mjs URL OPTIONS: what npm's ws, with all that it offers, makes of the WebSocket. OPTIONS is JSON:
// protocols, headers, count (snapshots to take), code (to close with then; 0: wait for the server). Prints one JSON
// object.
import { createRequire } from 'node:module';

const WebSocket = createRequire(new URL('../web/package.json', import.meta.url))('ws');
const [url, text] = process.argv.slice(2);
const options = { protocols: [], headers: {}, count: 1, code: 1000, ...JSON.parse(text ?? '{}') };
const told = { snapshots: [], pong: null, error: null };
const ws = new WebSocket(url, options.protocols, { headers: options.headers });

function finish() {
  if (told.snapshots.length >= options.count && told.pong !== null && options.code && ws.readyState === WebSocket.OPEN)
    ws.close(options.code, 'enough');
}

ws.on('open', () => {
  told.protocol = ws.protocol;
  told.extensions = ws.extensions;
  ws.ping('are you there');
});
ws.on('pong', (data) => {
  told.pong = data.toString();
  finish();
});
ws.on('message', (data, binary) => {
  const snapshot = JSON.parse(data);

  if (told.snapshots.push({ binary, keys: Object.keys(snapshot), at: snapshot.last_update_ms }) === 1)
    process.stderr.write('open\n');
  finish();
});
ws.on('unexpected-response', (_, response) => {
  told.status = response.statusCode;
  response.resume();
  process.stdout.write(JSON.stringify(told) + '\n', () => process.exit(0));
});
ws.on('error', (error) => (told.error = error.message));
ws.on('close', (code) => {
  told.code = code;
  process.stdout.write(JSON.stringify(told) + '\n');
});
