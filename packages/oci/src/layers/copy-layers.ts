import * as fs from 'node:fs';
import { bytePath, osPath, type BytePath } from '../archive/byte-path.ts';
import { OciError } from '../oci-error.ts';
import type { LayerContent } from './layer-record.ts';
import { makeSpecialFile, setXattrs } from './special-files.ts';

export interface CopyLayer extends Pick<LayerContent, 'whiteouts' | 'opaques' | 'xattrs'> {
  /** Directory of the extracted layer. */
  readonly files: string;
}
export interface CopyLayersRequest {
  /** The layers, the lowest first. */
  readonly layers: readonly CopyLayer[];
  /** An absent directory. */
  readonly target: string;
  readonly staging: string;
  /** True if files may be hard links of the layers' files, because nothing writes to them. */
  readonly shareFiles: boolean;
  readonly privileged: boolean;
}

const lstat = (path: BytePath) => fs.lstatSync(osPath(path), { throwIfNoEntry: false });
const isWhiteoutDevice = (stats: fs.Stats): boolean => stats.isCharacterDevice() && stats.rdev === 0;

/** Makes a tree with the files that a container sees: the layers on top of each other. */
export function copyLayers({ layers, target, staging, shareFiles, privileged }: CopyLayersRequest): void {
  fs.mkdirSync(target, { mode: 0o755 });
  const root = bytePath(target);
  for (const layer of layers) {
    hideLowerFiles(layer, root);
    new LayerCopy(bytePath(layer.files), root, { shareFiles, privileged }).run();
    const attributed = Object.entries(layer.xattrs).map(([path, values]) => ({
      path: `${root}/${path}`,
      xattrs: new Map(Object.entries(values).map(([name, value]) => [name, Buffer.from(value, 'base64')])),
    }));
    // hard links have the attributes of the layer's files; what the extraction could not set is in the notes of the image
    if (!shareFiles && attributed.length > 0) setXattrs(attributed, { staging, root });
  }
}

/** Returns the path if all its parents are directories, not links. */
function inside(root: BytePath, path: BytePath): BytePath | undefined {
  let at = root;
  const names = path === '' ? [] : path.split('/');
  for (const name of names.slice(0, -1)) {
    at = `${at}/${name}`;
    if (lstat(at)?.isDirectory() !== true) return undefined;
  }
  return names.length === 0 ? root : `${at}/${names.at(-1)}`;
}

function hideLowerFiles({ whiteouts, opaques }: CopyLayer, root: BytePath): void {
  for (const path of whiteouts) {
    const hidden = inside(root, path);
    if (hidden !== undefined) fs.rmSync(osPath(hidden), { recursive: true, force: true });
  }
  for (const path of opaques) {
    const directory = inside(root, path);
    if (directory === undefined || lstat(directory)?.isDirectory() !== true) continue;
    for (const name of fs.readdirSync(osPath(directory), { encoding: 'latin1' }))
      fs.rmSync(osPath(`${directory}/${name}`), { recursive: true, force: true });
  }
}

class LayerCopy {
  readonly #source: BytePath;
  readonly #target: BytePath;
  readonly #options: { readonly shareFiles: boolean; readonly privileged: boolean };
  readonly #linked = new Map<number, BytePath>();

  constructor(source: BytePath, target: BytePath, options: { readonly shareFiles: boolean; readonly privileged: boolean }) {
    this.#source = source;
    this.#target = target;
    this.#options = options;
  }

  run(): void {
    const pending = [''];
    const directories: (readonly [BytePath, fs.Stats])[] = [];
    for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
      const stats = fs.lstatSync(osPath(`${this.#source}${path}`));
      this.#makeDirectory(path);
      directories.push([path, stats]);
      for (const name of fs.readdirSync(osPath(`${this.#source}${path}`), { encoding: 'latin1' })) {
        const below = `${path}/${name}`;
        const found = fs.lstatSync(osPath(`${this.#source}${below}`));
        if (found.isDirectory()) pending.push(below);
        else if (!isWhiteoutDevice(found)) this.#copyFile(below, found);
      }
    }
    for (const [path, stats] of directories.sort(([a], [b]) => b.length - a.length)) this.#setMetadata(`${this.#target}${path}`, stats);
  }

  #makeDirectory(path: BytePath): void {
    const at = `${this.#target}${path}`;
    const found = lstat(at);
    if (found?.isDirectory()) {
      // the mode of a lower layer may forbid what follows
      if (!this.#options.privileged) fs.chmodSync(osPath(at), 0o700);
      return;
    }
    if (found) fs.unlinkSync(osPath(at));
    fs.mkdirSync(osPath(at), 0o700);
  }

  #copyFile(path: BytePath, stats: fs.Stats): void {
    const from = `${this.#source}${path}`;
    const to = `${this.#target}${path}`;
    fs.rmSync(osPath(to), { recursive: true, force: true });
    const first = stats.nlink > 1 ? this.#linked.get(stats.ino) : undefined;
    if (first !== undefined) {
      fs.linkSync(osPath(first), osPath(to));
      return;
    }
    if (stats.nlink > 1) this.#linked.set(stats.ino, to);
    if (this.#options.shareFiles && this.#share(from, to)) return;
    if (stats.isFile()) fs.copyFileSync(osPath(from), osPath(to), fs.constants.COPYFILE_EXCL | fs.constants.COPYFILE_FICLONE);
    else if (stats.isSymbolicLink()) fs.symlinkSync(fs.readlinkSync(osPath(from), { encoding: 'buffer' }), osPath(to));
    else this.#copySpecialFile(to, stats);
    this.#setMetadata(to, stats);
  }

  #share(from: BytePath, to: BytePath): boolean {
    try {
      fs.linkSync(osPath(from), osPath(to));
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EMLINK' || code === 'EPERM' || code === 'EXDEV') return false;
      throw error;
    }
  }

  #copySpecialFile(to: BytePath, stats: fs.Stats): void {
    const type = stats.isFIFO() ? 'fifo' : stats.isCharacterDevice() ? 'character-device' : 'block-device';
    // the encoding of device numbers of glibc
    const device = BigInt(stats.rdev);
    const major = Number(((device >> 8n) & 0xfffn) | ((device >> 32n) & ~0xfffn));
    const minor = Number((device & 0xffn) | ((device >> 12n) & ~0xffn));
    const reason = makeSpecialFile(to, { type, major, minor });
    if (reason !== undefined) throw new OciError('FailedPrecondition', `copying a ${type} of the image failed: ${reason}`);
  }

  #setMetadata(path: BytePath, { mode, uid, gid, mtime, atime }: fs.Stats): void {
    const at = osPath(path);
    if (this.#options.privileged) fs.lchownSync(at, uid, gid);
    const isLink = (mode & fs.constants.S_IFMT) === fs.constants.S_IFLNK;
    if (!isLink) fs.chmodSync(at, mode & 0o7777);
    fs.lutimesSync(at, atime, mtime);
  }
}
