import { parentPort, Worker, workerData } from 'node:worker_threads';
import type { FromThreadMessage, ThreadData, ToThreadMessage } from './thread-protocol.ts';

/** The connection of a plugin's thread or process to the `PluginThread` that started it. */
export interface ThreadPort {
  readonly data: ThreadData;
  send(message: FromThreadMessage): void;
  listen(handle: (message: ToThreadMessage) => void): void;
}

/** @throws Error in a thread or process that `PluginThread` did not start */
export async function openThreadPort(): Promise<ThreadPort> {
  const port = parentPort;
  if (port !== null)
    return {
      data: workerData as ThreadData,
      send: (message) => port.postMessage(message),
      listen: (handle) => void port.on('message', handle),
    };
  if (process.send === undefined) throw new Error('a plugin thread must run in a thread or process that the plugin host started');
  endWithParent();
  const data = await new Promise<Omit<ThreadData, 'running'>>((resolve) =>
    process.once('message', (message) => resolve(message as ThreadData)),
  );
  return {
    data: { ...data, running: new Int32Array(1) },
    send: (message) => void process.send?.(message),
    listen: (handle) => void process.on('message', (message) => handle(message as ToThreadMessage)),
  };
}

/** Program of a thread that ends this process when its parent has ended, also while the plugin blocks the main thread. */
const watchParent = `
const parent = process.ppid;
setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL'); }, 1000);
`;

/** Ends this process when its parent ends, and leaves it to the parent to stop it. */
export function endWithParent(): void {
  process.once('disconnect', () => process.exit(0));
  // a terminal sends signals to all processes; the parent stops this one
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
  new Worker(watchParent, { eval: true, execArgv: [], stdin: false }).unref();
}
