/**
 * The part of the watchdog's program that names the plugin that fills the heap: V8 ends a process whose heap is full without a call of any handler.
 *
 * While the memory of the process is below a share of the heap's limit, a check reads one number. Above it, a synchronous call of a plugin that lasts longer
 * than a check is named, and the main thread samples allocations: the plugin on the stacks of most of the sampled objects that are still alive is named.
 * A plugin is named on stderr once, and for the next process of the data directory as long as the heap is nearly full.
 */
export const heapWatch = `
const heapShare = 0.7;
const mebibytes = (bytes) => Math.round(bytes / 1048576) + ' MiB';
const warned = new Set();
let noted = '';
let lastCall = '';
function noteHeap(found, facts) {
  const key = quoted(found);
  if (noted === key) return;
  noted = key;
  note(found, 'the process ended with at least ' + 100 * heapShare + ' % of its heap in use; ' + facts);
  if (warned.has(key)) return;
  warned.add(key);
  writeSync(2, 'plugin ' + key + ' fills the heap of the process, which is limited to ' + mebibytes(heapLimit) + ': ' + facts + '. ' +
    'Correct the leak, or give the plugin a thread of its own with "placement: thread".\\n');
}
function forgetHeap() {
  if (noted !== '' && endFile !== undefined) rmSync(endFile, { force: true });
  noted = '';
}
let sampling;
function startSampling() {
  const session = new Session();
  session.connectToMainThread();
  const scripts = new Map();
  session.on('Debugger.scriptParsed', ({ params }) => scripts.set(params.scriptId, params));
  session.post('Debugger.enable', () => session.post('Debugger.disable'));
  session.post('HeapProfiler.startSampling', { samplingInterval: 131072 });
  return { session, ownersByScript: new Map(), scripts, isWaiting: false };
}
function stopSampling() {
  sampling?.session.disconnect();
  sampling = undefined;
}
function ownersOfFrame({ scriptId, url }) {
  const { ownersByScript, scripts } = sampling;
  if (!ownersByScript.has(scriptId)) ownersByScript.set(scriptId, ownersOf(scripts.get(scriptId) ?? { url }));
  return ownersByScript.get(scriptId);
}
function readProfile(head) {
  const sizes = new Map();
  let total = 0;
  const pending = [{ node: head, owners: [] }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const own = ownersOfFrame(next.node.callFrame);
    const owners = own.length > 0 ? own : next.owners;
    const key = JSON.stringify(owners);
    total += next.node.selfSize;
    sizes.set(key, (sizes.get(key) ?? 0) + next.node.selfSize);
    for (const node of next.node.children) pending.push({ node, owners });
  }
  const [key, size] = [...sizes].reduce((most, entry) => (entry[1] > most[1] ? entry : most), ['[]', 0]);
  const owners = JSON.parse(key);
  if (owners.length === 0 || size * 2 < total) forgetHeap();
  else noteHeap(owners, 'it kept ' + Math.round((100 * size) / total) + ' % of the memory that was allocated last');
}
function checkHeap() {
  const [plugin, count] = call;
  const before = lastCall;
  lastCall = plugin === 0 ? '' : 'call ' + count;
  if (process.memoryUsage.rss() < heapShare * heapLimit) {
    stopSampling();
    forgetHeap();
    return;
  }
  if (plugin !== 0 && lastCall === before) {
    noteHeap([names[plugin] ?? ''], 'one of its calls was running');
    return;
  }
  sampling ??= startSampling();
  if (sampling.isWaiting) return;
  const current = sampling;
  current.isWaiting = true;
  current.session.post('Runtime.getHeapUsage', (error, usage) => {
    if (sampling !== current) return;
    if (error !== null || usage.usedSize < heapShare * heapLimit) {
      current.isWaiting = false;
      forgetHeap();
      return;
    }
    current.session.post('HeapProfiler.getSamplingProfile', (failure, answer) => {
      if (sampling !== current) return;
      current.isWaiting = false;
      if (failure === null) readProfile(answer.profile.head);
    });
  });
}
setInterval(checkHeap, 100);
`;
