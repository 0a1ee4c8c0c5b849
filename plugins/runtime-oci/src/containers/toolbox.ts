import { execFile } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';

const run = promisify(execFile);
const timeout = 10_000;
/** Programs of util-linux, coreutils and the shell that prepare a container from inside, where an image may have none. */
const programs = ['sh', 'env', 'ln', 'mkdir', 'mount', 'rmdir', 'setpriv', 'umount'] as const;

/**
 * Copies the programs, their libraries and the loader of the machine to a directory, which containers see read-only below /dev: `ld --library-path lib
 * bin/NAME` runs them in any root directory. A complete directory stays as it is, because containers of an earlier supervisor have it mounted. @throws SupervisorError `FailedPrecondition` if one is missing
 */
export async function createToolbox(directory: string): Promise<void> {
  if ([...programs.map((name) => join('bin', name)), 'ld'].every((path) => existsSync(join(directory, path)))) return;
  const copies = `${directory}.new`;
  for (const path of [copies, directory]) rmSync(path, { recursive: true, force: true });
  await copyPrograms(copies);
  renameSync(copies, directory);
}

async function copyPrograms(directory: string): Promise<void> {
  for (const name of ['', 'bin', 'lib']) mkdirSync(join(directory, name), { recursive: true, mode: 0o755 });
  const ldd = requireProgram('ldd');
  const libraries = new Set<string>();
  let loader: string | undefined;
  for (const name of programs) {
    const program = realpathSync(requireProgram(name));
    copy(program, join(directory, 'bin', name));
    const { stdout } = await run(ldd, [program], { timeout, env: { LC_ALL: 'C' } });
    for (const line of stdout.split('\n')) {
      const library = /=> (\/\S+)/.exec(line)?.[1];
      loader ??= /^\s*(\/\S+) \(0x/.exec(line)?.[1];
      if (library !== undefined) libraries.add(library);
    }
  }
  if (loader === undefined) throw new SupervisorError('FailedPrecondition', 'the programs of this machine have no dynamic loader');
  copyLoader(loader, join(directory, 'ld'));
  for (const library of libraries) copy(library, join(directory, 'lib', basename(library)));
}

function requireProgram(name: string): string {
  const program = findProgram(name);
  if (program === undefined) throw new SupervisorError('FailedPrecondition', `the program ${name} is not installed`);
  return program;
}

/** The list of libraries that a loader loads into every program. */
const preloadFile = '/etc/ld.so.preload';

/** Copies the dynamic loader, without the name of its preload file: that of an image would run libraries of the image with the rights of the node. */
function copyLoader(from: string, to: string): void {
  const bytes = readFileSync(from);
  for (let at = bytes.indexOf(preloadFile); at >= 0; at = bytes.indexOf(preloadFile)) bytes[at] = 0;
  writeFileSync(to, bytes, { mode: 0o755 });
}

function copy(from: string, to: string): void {
  copyFileSync(from, to);
  chmodSync(to, 0o755);
}
