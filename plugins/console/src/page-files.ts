import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';

const expand = promisify(gunzip);

const mediaTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
};

/** A file of the page, compressed with gzip. */
export interface PageFile {
  readonly contentType: string;
  readonly compressed: Buffer;
  /** True if the name contains a hash of the content. */
  readonly isImmutable: boolean;
}

/** The folders that can contain the built page: beside the bundled program, and in the package of the page. */
const folders = ['./console-page/', '../../../packages/console-page/dist/page/', '../../console-page/dist/page/'];

/**
 * The files of the built page. The first request loads a table of all files by path, so that no request reads a path of its own choice. Memory is
 * used from the first request on.
 */
export class PageFiles {
  readonly #folder: () => string | undefined;
  #files: Promise<ReadonlyMap<string, PageFile>> | undefined;

  constructor(folder: () => string | undefined = builtPage) {
    this.#folder = folder;
  }

  /** Returns the file at a path below `/console/`; `''` is the document. Undefined if there is no such file. @throws Error if the page was not built */
  async find(path: string): Promise<PageFile | undefined> {
    this.#files ??= load(this.#folder());
    return (await this.#files).get(path === '' ? 'index.html' : path);
  }
}

/** Returns the content of a file without compression. */
export const expandFile = ({ compressed }: PageFile): Promise<Buffer> => expand(compressed);

function builtPage(): string | undefined {
  return folders.map((folder) => fileURLToPath(new URL(folder, import.meta.url))).find((folder) => existsSync(folder));
}

async function load(folder: string | undefined): Promise<ReadonlyMap<string, PageFile>> {
  if (folder === undefined) throw new Error('the page of the console is not part of this installation: `npm run build` builds it');
  const files = new Map<string, PageFile>();
  for (const entry of await readdir(folder)) {
    if (!entry.endsWith('.gz')) continue;
    const name = entry.slice(0, -'.gz'.length);
    const contentType = mediaTypes[extname(name)];
    if (contentType === undefined) continue;
    files.set(name, { contentType, compressed: await readFile(join(folder, entry)), isImmutable: /-[0-9A-Z]{8}\.\w+$/.test(name) });
  }
  return files;
}
