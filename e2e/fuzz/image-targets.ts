import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TarParser } from '@oarlock/oci/archive/tar-parser';
import { OciError } from '@oarlock/oci/oci-error';
import { loadHosts } from '@oarlock/oci/registry/host-config';
import { tar } from '../fixtures/tar.ts';
import type { FuzzTarget } from './engine.ts';
import { mutatedBytes, mutatedText } from './inputs.ts';

const target = <T>(each: FuzzTarget<T>): FuzzTarget => each as FuzzTarget;
const isOciError = (error: unknown): boolean => error instanceof OciError;

/** Archives with files, links, a whiteout, and an extended header. */
const archives = [
  tar([
    { type: 'directory', path: 'etc' },
    { type: 'file', path: 'etc/passwd', bytes: Buffer.from('root:x:0:0::/:/bin/sh\n') },
    { type: 'symlink', path: 'etc/link', target: '/../outside' },
    { type: 'link', path: 'etc/hard', target: 'etc/passwd' },
    { type: 'file', path: 'etc/.wh.removed', bytes: Buffer.alloc(0) },
  ]),
  // the content of the second entry is read as the records of an extended header when its type is changed to x
  tar([{ type: 'file', path: 'PaxHeaders/a', bytes: Buffer.from('18 path=etc/name\n22 GNU.sparse.major=1\n17 size=99999999\n') }]),
].map((archive, index) => (index === 0 ? archive : withType(archive, 'x')));

/** Changes the type of the first entry, and its checksum with it. */
function withType(archive: Buffer, type: string): Buffer {
  const changed = Buffer.from(archive);
  const before = changed[156] ?? 0;
  changed.write(type, 156, 'latin1');
  const sum = Number.parseInt(changed.toString('latin1', 148, 154), 8) + type.charCodeAt(0) - before;
  changed.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return changed;
}

/** Parses an archive in chunks of another size than its blocks. */
function parseArchive(bytes: Buffer): void {
  const parser = new TarParser({ entry: () => {}, data: () => {}, endOfEntry: () => {} });
  for (let at = 0; at < bytes.length; at += 700) parser.push(bytes.subarray(at, at + 700));
  parser.end();
}

async function parseHostsFile(text: string): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'oarlock-fuzz-'));
  try {
    mkdirSync(join(directory, 'registry.example.com'));
    writeFileSync(join(directory, 'registry.example.com', 'hosts.toml'), text);
    await loadHosts(directory, 'registry.example.com');
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Parsers of the files of images and of the configuration of registries. */
export const imageTargets: readonly FuzzTarget[] = [
  target({ name: 'layer archives', inputs: mutatedBytes(...archives), parse: parseArchive, isRejection: isOciError }),
  target({
    name: 'hosts.toml',
    inputs: mutatedText(
      'server = "https://registry.example.com"\n[host."http://127.0.0.1:5000"]\ncapabilities = ["pull", "resolve"]\nskip_verify = true\n[host."http://127.0.0.1:5000".header]\nx-a = ["b"]\n',
    ),
    parse: parseHostsFile,
    isRejection: isOciError,
  }),
];
