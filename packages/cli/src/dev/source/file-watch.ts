import { watch, type FSWatcher } from 'node:fs';
import { basename, dirname } from 'node:path';

/** Time in milliseconds within which events count as one change, because editors save in several steps. */
const debounceMs = 15;

/** Reports changes of files. Watches the files' directories, because editors replace a file by a new file. */
export class FileWatch {
  readonly #changed: (files: ReadonlySet<string>) => void;
  readonly #directories = new Map<string, FSWatcher>();
  readonly #files = new Set<string>();
  readonly #pending = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(changed: (files: ReadonlySet<string>) => void) {
    this.#changed = changed;
  }

  /** Adds files by absolute path. They need not exist. */
  add(files: Iterable<string>): void {
    for (const file of files) {
      this.#files.add(file);
      const directory = dirname(file);
      if (this.#directories.has(directory)) continue;
      const watcher = watch(directory, (_, name) => {
        if (name === null) return;
        const path = [...this.#files].find((each) => basename(each) === name && dirname(each) === directory);
        if (path !== undefined) this.#note(path);
      });
      watcher.on('error', () => watcher.close()); // the directory was removed
      this.#directories.set(directory, watcher);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const watcher of this.#directories.values()) watcher.close();
    this.#directories.clear();
  }

  #note(file: string): void {
    this.#pending.add(file);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const files = new Set(this.#pending);
      this.#pending.clear();
      this.#changed(files);
    }, debounceMs);
  }
}
