/**
 * What the watchdog thread reads: the number of the plugin whose synchronous code runs on the main thread (0: none), and the number of calls so far,
 * by which it recognizes one long call.
 */
export const runningCall = new Int32Array(new SharedArrayBuffer(8));

const names: string[] = [''];
let listener: ((names: readonly string[]) => void) | undefined;

/** Returns the number of a plugin for `enterPlugin`. */
export function numberOf(plugin: string): number {
  const known = names.indexOf(plugin);
  if (known >= 0) return known;
  names.push(plugin);
  listener?.(names);
  return names.length - 1;
}

/** Calls `listen` with the names of the plugins by number, now and when a plugin is added. */
export function onNumbered(listen: (names: readonly string[]) => void): void {
  listener = listen;
  listen(names);
}

/** Runs synchronous code of a plugin. It costs two stores into an array, because schedulers call plugins once per node. */
export function enterPlugin<T>(number: number, work: () => T): T {
  const before = runningCall[0] ?? 0;
  runningCall[0] = number;
  runningCall[1] = (runningCall[1] ?? 0) + 1;
  try {
    return work();
  } finally {
    runningCall[0] = before;
  }
}
