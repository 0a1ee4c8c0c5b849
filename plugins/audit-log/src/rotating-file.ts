import { createReadStream, createWriteStream } from 'node:fs';
import { open, readdir, rename, rm, type FileHandle } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';

export interface RotationOptions {
  readonly file: string;
  /** The maximum size of a file. The file is rotated before a write would exceed it. */
  readonly maxBytes: number;
  /** The maximum number of rotated files; 0 keeps all files. */
  readonly maxBackups: number;
  /** The maximum age of rotated files; 0 keeps files of any age. */
  readonly maxAgeMs: number;
  readonly compress: boolean;
  readonly now: () => number;
}

/**
 * A text file that is rotated by size. The name of a rotated file contains the time: `audit-2026-01-01T00-00-00.000.log`. All files have the mode
 * 0600. Writes must not overlap.
 */
export class RotatingFile {
  readonly #options: RotationOptions;
  readonly #backup: RegExp;
  #handle: FileHandle | undefined;
  #bytes = 0;
  #last = 0;

  constructor(options: RotationOptions) {
    this.#options = options;
    const extension = extname(options.file);
    const [stem, end] = [basename(options.file, extension), extension].map((text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'));
    this.#backup = new RegExp(String.raw`^${stem}-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d\.\d{3})${end}(?:\.gz)?$`);
  }

  async open(): Promise<void> {
    const handle = await open(this.#options.file, 'a', 0o600);
    this.#handle = handle;
    await handle.chmod(0o600); // an existing file may have another mode
    this.#bytes = (await handle.stat()).size;
    await this.#prune();
  }

  async append(text: Uint8Array): Promise<void> {
    const size = text.length;
    if (this.#bytes > 0 && this.#bytes + size > this.#options.maxBytes) await this.#rotate();
    if (this.#handle === undefined) throw new Error('the file is not open');
    await this.#handle.appendFile(text);
    this.#bytes += size;
  }

  async close(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close();
  }

  async #rotate(): Promise<void> {
    const { file, compress, now } = this.#options;
    await this.close();
    this.#last = Math.max(now(), this.#last + 1); // unique file names
    try {
      const extension = extname(file);
      const when = new Date(this.#last).toISOString().slice(0, -1).replaceAll(':', '-');
      const backup = join(dirname(file), `${basename(file, extension)}-${when}${extension}`);
      await rename(file, backup);
      if (compress) {
        await pipeline(createReadStream(backup), createGzip(), createWriteStream(`${backup}.gz`, { mode: 0o600 }));
        await rm(backup);
      }
    } finally {
      await this.open(); // also if the rename failed: writing continues in the old file
    }
  }

  async #prune(): Promise<void> {
    const { file, maxBackups, maxAgeMs, now } = this.#options;
    const folder = dirname(file);
    const backups = (await readdir(folder)).flatMap((name) => {
      const [, day, hours, minutes, seconds] = this.#backup.exec(name) ?? [];
      return day === undefined ? [] : [{ name, at: Date.parse(`${day}T${hours}:${minutes}:${seconds}Z`) }];
    });
    backups.sort((a, b) => b.at - a.at);
    const late = backups.filter(({ at }, index) => (maxBackups > 0 && index >= maxBackups) || (maxAgeMs > 0 && now() - at > maxAgeMs));
    await Promise.all(late.map(({ name }) => rm(join(folder, name), { force: true })));
  }
}
