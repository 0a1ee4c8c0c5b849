import { Worker } from 'node:worker_threads';
import { onNumbered, runningCall } from './running-call.ts';

/** Number of checks, one a second, in which one synchronous call of a plugin may block the process before the process is ended. */
const maxBlockedChecks = 8;

/**
 * Program of the watchdog thread. It counts its own checks instead of comparing times, so that a machine that was suspended is not mistaken for a
 * blocked process. SIGKILL, because a blocked main thread handles no other signal: a cluster keeps what it has acknowledged.
 */
const program = `
const { writeSync } = require('node:fs');
const { parentPort, workerData: { call, maxBlockedChecks } } = require('node:worker_threads');
let names = [];
parentPort.on('message', (next) => { names = next; });
let seen = 0;
let checks = 0;
setInterval(() => {
  const [plugin, count] = call;
  if (plugin === 0 || count !== seen) {
    seen = count;
    checks = 0;
    return;
  }
  if (++checks < maxBlockedChecks) return;
  const message = 'plugin ' + JSON.stringify(names[plugin] ?? '') + ' has blocked the process for ' + checks + ' s; the process ends. ' +
    'Correct the loop, or give the plugin a thread of its own with "placement: thread".\\n';
  try { writeSync(2, message); } finally { process.kill(process.pid, 'SIGKILL'); }
}, 1000);
`;

/**
 * Ends the process if one synchronous call of a plugin blocks it for 8 seconds, and names the plugin: nothing else can interrupt the call, and a
 * blocked process does not even receive SIGTERM. Returns a function that stops the watchdog.
 */
export function startWatchdog(): () => void {
  const worker = new Worker(program, { eval: true, execArgv: [], stdin: false, workerData: { call: runningCall, maxBlockedChecks } });
  worker.unref();
  onNumbered((names) => worker.postMessage(names, []));
  return () => void worker.terminate();
}
