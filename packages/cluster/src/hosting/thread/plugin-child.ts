import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { loaderFlags, programPath } from '@oarlock/primitives/os/bundled-program';
import { fromSource } from '../../plugins/plugin-compiler.ts';
import type { FromThreadMessage, ThreadData, ToThreadMessage } from './thread-protocol.ts';

/** Where a plugin with a heap of its own runs. */
export type Where = 'thread' | 'process';

/** A running thread or process of a plugin. */
export interface PluginChild {
  post(message: ToThreadMessage): void;
  onMessage(listen: (message: FromThreadMessage) => void): void;
  /** Calls `listen` once, with the reason, when the thread or process has ended. */
  onExit(listen: (reason: string) => void): void;
  /** Ends it at once. Resolves when it has ended. */
  terminate(): Promise<void>;
}

/**
 * Returns a program of this package that runs in a thread or process of its own: from source if this file is, otherwise compiled, also in the bundled
 * program. `source` is its path relative to this file.
 */
export function programEntry(specifier: string, source: string): { readonly file: string; readonly execArgv: string[] } {
  if (!fromSource) return { file: programPath(specifier, import.meta.url), execArgv: [] };
  const file = fileURLToPath(new URL(source, import.meta.url));
  return { file, execArgv: loaderFlags(file) };
}
const threadEntry = () => programEntry('@oarlock/cluster/hosting/thread/thread-main', './thread-main.ts');

export function startChild(where: Where, data: ThreadData, memoryMiB: number): PluginChild {
  return where === 'thread' ? startThread(data, memoryMiB) : startProcess(data, memoryMiB);
}

function startThread(data: ThreadData, memoryMiB: number): PluginChild {
  const { file, execArgv } = threadEntry();
  const worker = new Worker(file, {
    workerData: data,
    resourceLimits: { maxOldGenerationSizeMb: memoryMiB, maxYoungGenerationSizeMb: Math.max(4, Math.floor(memoryMiB / 8)) },
    execArgv,
    stdin: false,
  });
  worker.unref();
  let reason = 'its thread ended';
  worker.on('error', (error: NodeJS.ErrnoException) => {
    reason =
      error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? `its thread ran out of memory (${memoryMiB} MiB)` : `its thread ended: ${error.message}`;
  });
  return {
    post: (message) => worker.postMessage(message, []),
    onMessage: (listen) => void worker.on('message', listen),
    onExit: (listen) => void worker.once('exit', () => listen(reason)),
    terminate: async () => {
      await worker.terminate();
    },
  };
}

function startProcess(data: ThreadData, memoryMiB: number): PluginChild {
  const { running: _, ...plain } = data; // memory cannot be shared with a process
  const { file, execArgv } = threadEntry();
  const child = fork(file, [], {
    execArgv: [...execArgv, `--max-old-space-size=${memoryMiB}`],
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  child.unref();
  child.channel?.unref();
  let failure: Error | undefined;
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => {
      failure = error;
      if (child.pid === undefined) resolve(`its process cannot be started: ${error.message}`);
    });
    child.once('exit', (code, signal) => {
      // V8 aborts a process whose heap is full
      if (signal === 'SIGABRT') resolve(`its process was aborted; its heap is limited to ${memoryMiB} MiB`);
      else resolve(`its process ended with ${signal ?? `exit code ${code}`}${failure === undefined ? '' : `: ${failure.message}`}`);
    });
  });
  const post = (message: unknown): void => {
    // a process that has ended receives nothing; the calls in flight learn of the end
    if (child.connected) child.send(message as object, () => {});
  };
  post(plain);
  return {
    post,
    onMessage: (listen) => void child.on('message', (message) => listen(message as FromThreadMessage)),
    onExit: (listen) => void ended.then(listen),
    terminate: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
