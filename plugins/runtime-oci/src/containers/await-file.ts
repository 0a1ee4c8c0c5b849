import { watch } from 'node:fs';
import { basename, dirname } from 'node:path';

/** Calls `read` now and whenever something happens to the file, until `read` returns a value or the signal aborts; then returns undefined. */
export function awaitFile<T>(path: string, read: () => T | undefined, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const watcher = watch(dirname(path), { persistent: false });
    const settle = (then: () => void) => {
      watcher.close();
      signal.removeEventListener('abort', abort);
      then();
    };
    const abort = () => settle(() => resolve(undefined));
    const check = () => {
      try {
        const value = read();
        if (value !== undefined) settle(() => resolve(value));
      } catch (error) {
        settle(() => reject(error as Error));
      }
    };
    watcher.on('change', (_event, name) => {
      if (name === null || name === basename(path)) check();
    });
    watcher.on('error', (error) => settle(() => reject(error)));
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    else check();
  });
}
