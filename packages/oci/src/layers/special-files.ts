import { canChangeOwner } from '@oarlock/primitives/os/user-namespace';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { displayPath, osPath, type BytePath } from '../archive/byte-path.ts';
import { blockSize } from '../archive/tar-header.ts';

const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const timeoutMs = 60_000;

/** A device file, fifo, or whiteout of overlayfs, which Node cannot create. */
export interface SpecialFile {
  readonly type: 'fifo' | 'character-device' | 'block-device';
  readonly major: number;
  readonly minor: number;
}

const letters = { fifo: 'p', 'character-device': 'c', 'block-device': 'b' } as const;

/** Creates a special file with mknod(1). Returns the reason if the file could not be created. */
export function makeSpecialFile(at: BytePath, { type, major, minor }: SpecialFile): string | undefined {
  // the program receives the path in the encoding of the file system; a name that is not UTF-8 cannot be an argument
  const argument = displayPath(at);
  if (Buffer.from(argument, 'utf8').toString('latin1') !== at) return 'its name is not UTF-8';
  const numbers = type === 'fifo' ? [] : [`${major}`, `${minor}`];
  const { status, error, stderr } = spawnSync('mknod', ['-m', '600', '--', argument, letters[type], ...numbers], {
    env: { PATH: path, LC_ALL: 'C' },
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: timeoutMs,
  });
  if (error) return `mknod: ${error.message}`;
  return status === 0 ? undefined : `${stderr.toString().trim().slice(0, 300)}`;
}

/** A file and the extended attributes to set on it. */
export interface AttributedFile {
  readonly path: BytePath;
  readonly xattrs: ReadonlyMap<string, Buffer>;
}

/** Returns true if an image may set an attribute: others are of the host's security modules, or change how overlayfs reads a layer. */
export const isImageXattr = (name: string): boolean =>
  name === 'security.capability' || (name.startsWith('user.') && !name.startsWith('user.overlay.'));

function headerBlock(name: string, type: string, { size, mode, uid, gid }: Pick<fs.Stats, 'size' | 'mode' | 'uid' | 'gid'>): Buffer {
  const block = Buffer.alloc(blockSize);
  const octal = (value: number, offset: number, length: number) =>
    block.write(`${value.toString(8).padStart(length - 1, '0')}\u0000`, offset, 'latin1');
  block.write(name, 0, 'latin1');
  octal(mode & 0o7777, 100, 8);
  octal(uid % 2 ** 21, 108, 8);
  octal(gid % 2 ** 21, 116, 8);
  if (size < 2 ** 33) octal(size, 124, 12);
  else {
    block.writeUInt32BE(0x80000000, 124);
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  octal(0, 136, 12);
  block.write('        ', 148, 'latin1');
  block.write(type, 156, 'latin1');
  block.write('ustar\u000000', 257, 'latin1');
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, '0')}\u0000 `, 148, 'latin1');
  return block;
}

function paxRecord(key: string, value: Buffer): Buffer {
  const rest = Buffer.concat([Buffer.from(` ${key}=`, 'latin1'), value, Buffer.from('\n')]);
  let length = rest.length + 1;
  while (`${length}`.length + rest.length !== length) length = `${length}`.length + rest.length;
  return Buffer.concat([Buffer.from(`${length}`), rest]);
}

const padding = (size: number): Buffer => Buffer.alloc((blockSize - (size % blockSize)) % blockSize);

/** Writes an archive with the files under the names `0`, `1`, ..., their content and attributes. */
function writeArchive(archive: string, files: readonly AttributedFile[]): void {
  const out = fs.openSync(archive, 'wx', 0o600);
  try {
    const buffer = Buffer.alloc(1024 * 1024);
    for (const [index, { path: file, xattrs }] of files.entries()) {
      const source = fs.openSync(osPath(file), fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
      try {
        const { size, mode, uid, gid } = fs.fstatSync(source);
        const pax = Buffer.concat([
          paxRecord('uid', Buffer.from(`${uid}`)),
          paxRecord('gid', Buffer.from(`${gid}`)),
          ...[...xattrs].map(([name, value]) => paxRecord(`SCHILY.xattr.${name}`, value)),
        ]);
        const owner = { mode, uid, gid };
        fs.writeSync(out, Buffer.concat([headerBlock(`p${index}`, 'x', { ...owner, size: pax.length }), pax, padding(pax.length)]));
        fs.writeSync(out, headerBlock(`${index}`, '0', { ...owner, size }));
        for (let read = fs.readSync(source, buffer); read > 0; read = fs.readSync(source, buffer)) fs.writeSync(out, buffer, 0, read);
        fs.writeSync(out, padding(size));
      } finally {
        fs.closeSync(source);
      }
    }
    fs.writeSync(out, Buffer.alloc(2 * blockSize));
  } finally {
    fs.closeSync(out);
  }
}

/** Returns the paths of files with several hard links below a directory, by inode. */
function linksByInode(root: BytePath, inodes: ReadonlySet<number>): ReadonlyMap<number, readonly BytePath[]> {
  const found = new Map<number, BytePath[]>();
  const pending = [root];
  for (let directory = pending.pop(); directory !== undefined && inodes.size > 0; directory = pending.pop()) {
    for (const name of fs.readdirSync(osPath(directory), { encoding: 'latin1' })) {
      const at = `${directory}/${name}`;
      const stats = fs.lstatSync(osPath(at));
      if (stats.isDirectory()) pending.push(at);
      else if (inodes.has(stats.ino)) found.set(stats.ino, [...(found.get(stats.ino) ?? []), at]);
    }
  }
  return found;
}

/**
 * Sets extended attributes of files below a root, which Node cannot do, with GNU tar: it extracts copies of the files with the attributes, which replace the
 * files and their hard links.
 *
 * Returns the reason if the attributes were not set.
 *
 * @param staging an absent path on the file system of the files
 */
export function setXattrs(
  files: readonly AttributedFile[],
  { staging, root }: { readonly staging: string; readonly root: BytePath },
): string | undefined {
  const run = (args: readonly string[]) =>
    spawnSync('tar', args, { env: { PATH: path, LC_ALL: 'C' }, stdio: ['ignore', 'pipe', 'pipe'], timeout: timeoutMs });
  const version = run(['--version']);
  if (version.error || !version.stdout.toString().includes('GNU tar')) return 'GNU tar is not installed';
  fs.mkdirSync(staging, 0o700);
  try {
    const archive = `${staging}/archive`;
    writeArchive(archive, files);
    const options = ['--xattrs', '--xattrs-include=*', '--numeric-owner', '--same-owner', '--preserve-permissions'];
    if (!canChangeOwner()) options.splice(3, 1);
    const { status, stderr } = run(['--extract', ...options, '--file', archive, '--directory', staging]);
    const message = stderr.toString().trim();
    if (status !== 0) return message.slice(0, 300) || `tar exited with ${status}`;
    const stats = files.map(({ path: file }) => fs.lstatSync(osPath(file)));
    const links = linksByInode(root, new Set(stats.flatMap(({ nlink, ino }) => (nlink > 1 ? [ino] : []))));
    for (const [index, { path: file }] of files.entries()) replaceFile(`${staging}/${index}`, file, { before: stats[index], links });
    return message === '' ? undefined : message.slice(0, 300);
  } finally {
    fs.rmSync(staging, { recursive: true, force: true });
  }
}

function replaceFile(
  copy: string,
  file: BytePath,
  { before, links }: { readonly before: fs.Stats | undefined; readonly links: ReadonlyMap<number, readonly BytePath[]> },
): void {
  if (!before) return;
  fs.utimesSync(copy, before.atime, before.mtime);
  fs.renameSync(copy, osPath(file));
  for (const link of links.get(before.ino) ?? []) {
    if (link === file) continue;
    fs.unlinkSync(osPath(link));
    fs.linkSync(osPath(file), osPath(link));
  }
}
