import { heapWatch } from './heap-watch.ts';

/**
 * Program of the watchdog thread. It measures the processor time of the main thread (on Linux; elsewhere that of the process) and counts its own checks:
 * time in which the machine is busy or suspended, or the process is stopped, does not count as use of the processor. SIGKILL, because a blocked main
 * thread handles no other signal: a cluster keeps what it has acknowledged.
 *
 * Code after an `await` runs outside of the call that began it. If the event loop stands still outside of calls, the thread pauses the main thread like
 * a debugger and reads its stack: code of Oarlock may work for long, code of a plugin may not.
 */
export const watchdogProgram = `
const { Session } = require('node:inspector');
const { readFileSync, renameSync, rmSync, writeFileSync, writeSync } = require('node:fs');
const { parentPort, workerData: { call, beat, plugins, limits, heapLimit, endFile } } = require('node:worker_threads');
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
const quoted = (found) => found.map((name) => JSON.stringify(name)).join(' or ');
// for the next process of the data directory
function note(found, reason) {
  if (endFile === undefined) return;
  writeFileSync(endFile + '.new', JSON.stringify({ plugins: found, reason }), { mode: 0o600 });
  renameSync(endFile + '.new', endFile);
}
function end(found) {
  const blocked = 'blocked the process for ' + checks + ' s';
  const message = 'plugin ' + quoted(found) + ' has ' + blocked + '; the process ends. ' +
    'Correct the loop, or give the plugin a thread of its own with "placement: thread".\\n';
  try {
    writeSync(2, message);
    note(found, 'it ' + blocked + ', which ended');
  } finally { process.kill(process.pid, 'SIGKILL'); }
}
// the URLs of a script and of the sources from which it was compiled, as its inline source map names them
function urlsOf({ url, sourceMapURL = '' }) {
  const [, encoded] = /^data:application\\/json;.*base64,(.*)$/.exec(sourceMapURL) ?? [];
  if (encoded === undefined) return [url];
  return [url, ...JSON.parse(Buffer.from(encoded, 'base64').toString()).sources.map((source) => new URL(source, url).href)];
}
function ownersOf(script) {
  const urls = urlsOf(script);
  const owns = (module) => urls.some((url) => url === module || (module.endsWith('/') && url.startsWith(module)));
  return plugins.filter(({ modules }) => modules.some(owns)).map(({ name }) => name);
}
function inspect() {
  const session = new Session();
  session.connectToMainThread();
  const scripts = new Map();
  session.on('Debugger.scriptParsed', ({ params }) => scripts.set(params.scriptId, params));
  session.on('Debugger.paused', ({ params: { callFrames } }) => {
    for (const { location } of callFrames) {
      const owners = ownersOf(scripts.get(location.scriptId) ?? { url: '' });
      if (owners.length > 0) end(owners);
    }
    session.post('Debugger.resume', () => session.disconnect());
  });
  session.post('Debugger.enable');
  session.post('Debugger.pause');
}
let names = [];
parentPort.on('message', (next) => { names = next; });
let seen = '';
let checks = 0;
let cpuBefore = 0;
setInterval(() => {
  const [plugin, count] = call;
  const progress = plugin === 0 ? 'beat ' + beat[0] : 'call ' + count;
  if (progress !== seen) {
    seen = progress;
    checks = 0;
    cpuBefore = cpuSeconds();
    return;
  }
  checks += 1;
  const isOverTime = cpuSeconds() - cpuBefore >= limits.cpuSeconds;
  if (plugin !== 0 && (isOverTime || checks >= limits.checks)) end([names[plugin] ?? '']);
  // a thread that waits in native code cannot be paused
  if (plugin !== 0 || !isOverTime) return;
  seen = '';
  inspect();
}, 1000);
${heapWatch}
`;
