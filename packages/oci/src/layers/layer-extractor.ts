import * as fs from 'node:fs';
import { bytePath, displayPath, osPath, type BytePath } from '../archive/byte-path.ts';
import type { TarEntry } from '../archive/tar-header.ts';
import type { TarHandler } from '../archive/tar-parser.ts';
import { OciError } from '../oci-error.ts';
import { LayerBudget } from './layer-budget.ts';
import type { LayerContent, LayerLimits } from './layer-record.ts';
import { LayerTree, pathComponents } from './layer-tree.ts';
import { isImageXattr, makeSpecialFile, setXattrs, type SpecialFile } from './special-files.ts';
import { treeUsage } from './tree-usage.ts';

const whiteoutPrefix = '.wh.';
const opaqueName = '.wh..wh..opq';
const maxSpecialFiles = 4096;
/** Limits of Linux in bytes (xattr(7)). */
const [maxXattrName, maxXattrValue] = [255, 65_536];
const maxId = 2 ** 32 - 2;
const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = fs.constants;

interface Metadata {
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly mtime: number;
}
interface OpenFile {
  readonly descriptor: number;
  readonly path: BytePath;
  readonly entry: TarEntry;
  /** End of the content that was written; the rest of a sparse file is a hole. */
  end: number;
}

export interface ExtractorOptions {
  /** An existing empty directory. */
  readonly root: string;
  /** An absent path on the same file system, for temporary files. */
  readonly staging: string;
  readonly limits: LayerLimits;
  /** True if the process may change owners and create device files. */
  readonly privileged: boolean;
}

/**
 * Extracts the entries of one layer into a directory (image-spec, layer.md). Whiteouts and opaque directories are recorded, not applied. Owners are kept if the
 * process is privileged; device files are created if the kernel allows it. What is left out is in the notes.
 */
export class LayerExtractor implements TarHandler {
  readonly #options: ExtractorOptions;
  readonly #tree: LayerTree;
  readonly #whiteouts = new Set<BytePath>();
  readonly #opaques = new Set<BytePath>();
  readonly #implied = new Set<BytePath>(['']);
  readonly #directories = new Map<BytePath, Metadata>();
  readonly #special = new Map<BytePath, { readonly file: SpecialFile; readonly metadata: Metadata }>();
  readonly #xattrs = new Map<BytePath, Map<string, Buffer>>();
  readonly #budget: LayerBudget;
  #open: OpenFile | undefined;
  #unmappedOwners = 0;
  #skippedXattrs = 0;
  #notes: string[] = [];

  constructor(options: ExtractorOptions) {
    this.#options = options;
    this.#budget = new LayerBudget(options.limits);
    this.#tree = new LayerTree(bytePath(options.root), { budget: this.#budget, onImplied: (path) => this.#implied.add(path) });
  }

  entry(entry: TarEntry): void {
    this.#budget.entry();
    if (entry.uid > maxId || entry.gid > maxId || entry.uid < 0 || entry.gid < 0) throw this.#invalid(entry, 'the owner is out of range');
    const components = pathComponents(entry.path);
    const name = components.at(-1) ?? '';
    if (name.startsWith(whiteoutPrefix)) {
      this.#whiteout(entry, components, name);
      return;
    }
    this.#create(entry, this.#tree.locate(components));
  }

  data(chunk: Buffer, offset: number): void {
    const open = this.#open;
    if (!open) return;
    for (let at = 0; at < chunk.length; ) at += fs.writeSync(open.descriptor, chunk, at, chunk.length - at, offset + at);
    open.end = offset + chunk.length;
  }

  endOfEntry(): void {
    const open = this.#open;
    if (!open) return;
    try {
      if (open.end < open.entry.size) fs.ftruncateSync(open.descriptor, open.entry.size);
      this.#own(() => fs.fchownSync(open.descriptor, open.entry.uid, open.entry.gid));
      fs.fchmodSync(open.descriptor, open.entry.mode);
      fs.futimesSync(open.descriptor, open.entry.mtime, open.entry.mtime);
    } finally {
      this.close();
    }
  }

  /** Closes the file of an unfinished entry. */
  close(): void {
    if (this.#open) fs.closeSync(this.#open.descriptor);
    this.#open = undefined;
  }

  /** Sets what must follow the files: special files, extended attributes, and modes and times of directories. */
  finish(): LayerContent {
    this.#makeSpecialFiles();
    this.#setXattrs();
    const { whiteouts, opaques } = this.#hidden();
    const usage = treeUsage(bytePath(this.#options.root));
    const implied = [...this.#implied].filter((path) => this.#tree.stat(path)?.isDirectory() === true);
    // the deepest first, because a mode may forbid access
    const deepestFirst = [...this.#directories].sort(([a], [b]) => b.length - a.length);
    for (const [path, metadata] of deepestFirst) this.#setDirectory(path, metadata);
    if (this.#unmappedOwners > 0)
      this.#notes.push(`The owners of ${this.#unmappedOwners} files are not mapped in this user namespace; the files belong to root.`);
    if (this.#skippedXattrs > 0) this.#notes.push(`${this.#skippedXattrs} extended attributes were not set.`);
    return {
      ...usage,
      whiteouts,
      opaques,
      implied,
      xattrs: Object.fromEntries(
        [...this.#xattrs].map(([path, values]) => [
          path,
          Object.fromEntries([...values].map(([name, value]) => [name, value.toString('base64')])),
        ]),
      ),
      notes: this.#notes,
    };
  }

  #invalid({ path }: TarEntry, reason: string): OciError {
    return new OciError('InvalidContent', `invalid layer: ${displayPath(path)}: ${reason}`);
  }

  #whiteout(entry: TarEntry, components: readonly string[], name: string): void {
    if (name === opaqueName) {
      const marker = this.#tree.locate(components);
      this.#opaques.add(marker.slice(0, Math.max(0, marker.length - opaqueName.length - 1)));
      return;
    }
    // other names of this form are metadata of aufs
    if (name.startsWith('.wh..wh.')) return;
    const hidden = name.slice(whiteoutPrefix.length);
    if (hidden === '' || hidden === '.' || hidden === '..') throw this.#invalid(entry, 'the whiteout has no name');
    this.#budget.record(entry.path.length);
    this.#whiteouts.add(this.#tree.locate([...components.slice(0, -1), hidden]));
  }

  #create(entry: TarEntry, path: BytePath): void {
    const metadata: Metadata = entry;
    if (entry.type === 'directory') {
      this.#makeDirectory(path);
      this.#budget.record(path.length);
      this.#implied.delete(path);
      this.#directories.delete(path);
      this.#directories.set(path, metadata);
      return;
    }
    if (path === '') throw this.#invalid(entry, 'the root is not a directory');
    if (entry.type === 'link') {
      this.#link(entry, path);
      return;
    }
    this.#forget(path);
    const absolute = osPath(this.#tree.absolute(path));
    if (entry.type === 'file') {
      this.#budget.file(entry.size);
      const descriptor = fs.openSync(absolute, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600);
      this.#open = { descriptor, path, entry, end: 0 };
      this.#recordXattrs(path, entry);
    } else if (entry.type === 'symlink') {
      fs.symlinkSync(osPath(entry.linkPath), absolute);
      this.#own(() => fs.lchownSync(absolute, entry.uid, entry.gid));
      fs.lutimesSync(absolute, entry.mtime, entry.mtime);
    } else {
      if (this.#special.size >= maxSpecialFiles) throw new OciError('TooLarge', `the layer has more than ${maxSpecialFiles} special files`);
      this.#special.set(path, { file: { type: entry.type, major: entry.deviceMajor, minor: entry.deviceMinor }, metadata });
    }
  }

  #makeDirectory(path: BytePath): void {
    const found = this.#tree.stat(path);
    if (found?.isDirectory()) return;
    this.#forget(path);
    fs.mkdirSync(osPath(this.#tree.absolute(path)), 0o755);
  }

  #link(entry: TarEntry, path: BytePath): void {
    const target = this.#tree.find(pathComponents(entry.linkPath));
    if (target === undefined)
      throw this.#invalid(entry, `the target of the hard link, ${displayPath(entry.linkPath)}, is not in the layer`);
    if (target === path) return;
    if (this.#tree.stat(target)?.isDirectory()) throw this.#invalid(entry, 'the target of the hard link is a directory');
    this.#forget(path);
    fs.linkSync(osPath(this.#tree.absolute(target)), osPath(this.#tree.absolute(path)));
  }

  /** Removes an earlier entry of the same path, with what is recorded about it. */
  #forget(path: BytePath): void {
    this.#special.delete(path);
    this.#xattrs.delete(path);
    if (!this.#tree.stat(path)) return;
    const isDirectory = this.#tree.stat(path)?.isDirectory() === true;
    this.#tree.clear(path);
    if (!isDirectory) return;
    const below = `${path}/`;
    const recorded = [this.#directories, this.#xattrs, this.#implied];
    this.#budget.work(recorded.reduce((sum, { size }) => sum + size, 0));
    for (const map of recorded) for (const key of map.keys()) if (key === path || key.startsWith(below)) map.delete(key);
  }

  #recordXattrs(path: BytePath, { xattrs }: TarEntry): void {
    for (const [name, value] of xattrs) {
      if (!isImageXattr(name) || name.length > maxXattrName || value.length > maxXattrValue) {
        this.#skippedXattrs += 1;
        continue;
      }
      this.#budget.record(path.length, name.length, value.length);
      this.#xattrs.set(path, (this.#xattrs.get(path) ?? new Map<string, Buffer>()).set(name, value));
    }
  }

  /** Changes an owner if the process may; ids that the user namespace does not map are counted. */
  #own(change: () => void): void {
    if (!this.#options.privileged) return;
    try {
      change();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EINVAL') throw error;
      this.#unmappedOwners += 1;
    }
  }

  #makeSpecialFiles(): void {
    for (const [path, { file, metadata }] of this.#special) {
      if (this.#tree.stat(path)) continue;
      const parent = path.slice(0, Math.max(0, path.lastIndexOf('/')));
      if (this.#tree.stat(parent)?.isDirectory() !== true) continue;
      const reason = makeSpecialFile(this.#tree.absolute(path), file);
      if (reason !== undefined) {
        if (this.#notes.length < 20) this.#notes.push(`The ${file.type} /${displayPath(path)} was not created: ${reason}.`);
        continue;
      }
      const absolute = osPath(this.#tree.absolute(path));
      this.#own(() => fs.lchownSync(absolute, metadata.uid, metadata.gid));
      fs.chmodSync(absolute, metadata.mode);
      fs.lutimesSync(absolute, metadata.mtime, metadata.mtime);
    }
  }

  #setXattrs(): void {
    if (this.#xattrs.size === 0) return;
    const files = [...this.#xattrs].map(([path, xattrs]) => ({ path: this.#tree.absolute(path), xattrs }));
    const reason = setXattrs(files, { staging: this.#options.staging, root: bytePath(this.#options.root) });
    if (reason !== undefined)
      this.#notes.push(`Extended attributes of ${files.length} files, such as capabilities, were not set: ${reason}.`);
  }

  #setDirectory(path: BytePath, { mode, uid, gid, mtime }: Metadata): void {
    const absolute = osPath(this.#tree.absolute(path));
    this.#own(() => fs.lchownSync(absolute, uid, gid));
    fs.chmodSync(absolute, mode);
    fs.lutimesSync(absolute, mtime, mtime);
  }

  /** A whiteout hides lower layers only: where the layer has a directory, it is opaque; where it has another file, the file hides them. */
  #hidden(): { readonly whiteouts: readonly BytePath[]; readonly opaques: readonly BytePath[] } {
    const whiteouts: BytePath[] = [];
    for (const path of this.#whiteouts) {
      const found = this.#tree.stat(path);
      if (!found) whiteouts.push(path);
      else if (found.isDirectory()) this.#opaques.add(path);
    }
    return { whiteouts, opaques: [...this.#opaques].filter((path) => this.#tree.stat(path)?.isDirectory() === true) };
  }
}
