import { rm } from 'node:fs/promises';
import { getHeapStatistics } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { onNumbered, runningCall } from './running-call.ts';
import { watchdogProgram } from './watchdog-program.ts';

/** A plugin, and the URLs of its sources and modules, or of folders of them, which end in a slash. */
export interface WatchedPlugin {
  readonly name: string;
  readonly modules: readonly string[];
}

/**
 * Processor time in seconds that synchronous code of a plugin may use, and checks, one a second, for which it may block the process without using
 * that much, as when it waits for a child process.
 */
const defaultLimits = { cpuSeconds: 8, checks: 60 };

export type StopWatchdog = () => Promise<void> | void;

export interface WatchdogOptions {
  readonly limits?: typeof defaultLimits;
  /** File in which the watchdog names the plugin that ends the process; undefined if nothing reads it. */
  readonly endFile?: string;
}

/**
 * Ends the process if synchronous code of a plugin blocks it, and names the plugin: nothing else can interrupt the code, and a
 * blocked process does not even receive SIGTERM. Names a plugin that fills the heap, before V8 ends the process. Returns a function that stops the watchdog.
 */
export function startWatchdog(plugins: readonly WatchedPlugin[], { limits = defaultLimits, endFile }: WatchdogOptions = {}): StopWatchdog {
  const beat = new Int32Array(new SharedArrayBuffer(4));
  const timer = setInterval(() => {
    beat[0] = (beat[0] ?? 0) + 1;
  }, 1000);
  timer.unref();
  const { heap_size_limit: heapLimit } = getHeapStatistics();
  const workerData = { call: runningCall, beat, plugins, limits, heapLimit, endFile };
  const worker = new Worker(watchdogProgram, { eval: true, execArgv: [], stdin: false, workerData });
  worker.unref();
  onNumbered((names) => worker.postMessage(names, []));
  return async () => {
    clearInterval(timer);
    await worker.terminate();
    if (endFile !== undefined) await rm(endFile, { force: true });
  };
}
