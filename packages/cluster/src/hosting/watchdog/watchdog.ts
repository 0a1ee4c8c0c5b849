import { Worker } from 'node:worker_threads';
import { onNumbered, runningCall } from './running-call.ts';

/**
 * Processor time in seconds that one synchronous call of a plugin may use, and checks, one a second, for which it may block the process without using
 * that much, as when it waits for a child process.
 */
const limits = { cpuSeconds: 8, checks: 60 };

/**
 * Program of the watchdog thread. It measures the processor time of the main thread (on Linux; elsewhere that of the process) and counts its own checks:
 * time in which the machine is busy or suspended, or the process is stopped, does not count as use of the processor. SIGKILL, because a blocked main
 * thread handles no other signal: a cluster keeps what it has acknowledged.
 */
const program = `
const { readFileSync, writeSync } = require('node:fs');
const { parentPort, workerData: { call, limits } } = require('node:worker_threads');
function cpuSeconds() {
  try {
    // the fields after the name of the thread, in hundredths of a second
    const [,,,,,,,,,,, user, system] = readFileSync('/proc/self/task/' + process.pid + '/stat', 'utf8').replace(/^.*\\) /s, '').split(' ');
    return (Number(user) + Number(system)) / 100;
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  }
}
let names = [];
parentPort.on('message', (next) => { names = next; });
let seen = 0;
let checks = 0;
let cpuBefore = 0;
setInterval(() => {
  const [plugin, count] = call;
  if (plugin === 0 || count !== seen) {
    seen = count;
    checks = 0;
    if (plugin !== 0) cpuBefore = cpuSeconds();
    return;
  }
  if (++checks < limits.checks && cpuSeconds() - cpuBefore < limits.cpuSeconds) return;
  const message = 'plugin ' + JSON.stringify(names[plugin] ?? '') + ' has blocked the process for ' + checks + ' s; the process ends. ' +
    'Correct the loop, or give the plugin a thread of its own with "placement: thread".\\n';
  try { writeSync(2, message); } finally { process.kill(process.pid, 'SIGKILL'); }
}, 1000);
`;

/**
 * Ends the process if one synchronous call of a plugin blocks it, and names the plugin: nothing else can interrupt the call, and a
 * blocked process does not even receive SIGTERM. Returns a function that stops the watchdog.
 */
export function startWatchdog(): () => void {
  const worker = new Worker(program, { eval: true, execArgv: [], stdin: false, workerData: { call: runningCall, limits } });
  worker.unref();
  onNumbered((names) => worker.postMessage(names, []));
  return () => void worker.terminate();
}
