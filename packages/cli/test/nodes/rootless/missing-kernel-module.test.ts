import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { missingKernelModule, moduleScript } from '../../../src/nodes/rootless/missing-kernel-module.ts';

describe('a kernel module that a node without root needs', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-modules-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  /** Runs the script with programs that fail as on a kernel that lacks a type of devices or packet rules. */
  async function errorsWithout(lacking: string, message: string): Promise<string> {
    const programs = {
      ip: `case "$*" in *"type ${lacking}"*) echo '${message}' >&2; exit 2 ;; esac`,
      nft: lacking === 'nf_tables' ? `echo '${message}' >&2; exit 1` : 'exit 0',
    };
    for (const [name, script] of Object.entries(programs)) {
      await writeFile(join(directory, name), `#!/bin/sh\n${script}\n`);
      await chmod(join(directory, name), 0o755);
    }
    return new Promise((resolve) => {
      execFile('/bin/sh', ['-c', moduleScript], { env: { PATH: directory } }, (_error, _stdout, stderr) => resolve(stderr));
    });
  }

  it.each([
    ['bridge', 'Error: Unknown device type.'],
    ['veth', 'Error: Unknown device type.'],
    ['veth', 'RTNETLINK answers: Operation not supported'],
    ['nf_tables', 'Error: cache initialization failed: Operation not supported'],
    ['nf_tables', 'Unable to initialize Netlink socket: Protocol not supported'],
  ])('is named: %s, after "%s"', async (name, message) => {
    expect(missingKernelModule(await errorsWithout(name, message))).toMatch(
      new RegExp(`^the kernel lacks the module ${name}: as root, run \`modprobe ${name}\``),
    );
  });

  it('is not named if the kernel has all, or denies the namespaces', async () => {
    expect(await errorsWithout('none', '')).toBe('');
    expect(missingKernelModule('unshare: unshare failed: Operation not permitted')).toBeUndefined();
    expect(missingKernelModule(await errorsWithout('bridge', 'RTNETLINK answers: Operation not permitted'))).toBeUndefined();
  });
});
