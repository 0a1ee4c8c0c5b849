import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isMounted } from '@oarlock/oci/snapshots/mount-root';
import { findTools } from '@oarlock/process-supervisor/host/host-tools';
import type { SandboxRecord } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PodResourceManager } from '../../src/containers/pod-resources.ts';
import { missingForRoot } from '../support/fixture.ts';
import { podConfig } from '../support/pod.ts';

describe('resources of a pod', () => {
  const missing = missingForRoot();
  let directory: string;
  let sandbox: SandboxRecord;
  beforeEach(async ({ skip }) => {
    skip(missing !== undefined, missing);
    directory = await mkdtemp(join(tmpdir(), 'pod-resources-'));
    const config = podConfig(directory);
    sandbox = { id: 'a'.repeat(64), ...config, config, state: 'READY', createdAt: 0, ips: [], boot: '' };
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));
  const manager = async () => new PodResourceManager(() => directory, { tools: await findTools({ namespaces: true }), mode: 'root' });

  it('are shared by the supervisors of a pod, and removed with it', async () => {
    const opened = await (await manager()).open(sandbox);
    expect(opened).toEqual({ shm: join(directory, 'shm'), shared: { ipc: join(directory, 'ipc') } });
    const next = await manager();
    expect(await next.open(sandbox)).toEqual(opened);
    await next.close(sandbox.id);
    expect(['shm', 'ipc'].filter((name) => isMounted(join(directory, name)))).toEqual([]);
  });

  it('have the sysctls of the pod that belong to its IPC namespace, or an error that names the wrong one', async () => {
    const withSysctls = (sysctls: Readonly<Record<string, string>>): SandboxRecord => {
      const { linux } = sandbox.config;
      return { ...sandbox, config: { ...sandbox.config, linux: { ...linux, sysctls } } };
    };
    const resources = await manager();
    const { shared } = await resources.open(withSysctls({ 'kernel.shm_rmid_forced': '1', 'net.ipv4.ip_forward': '1' }));
    const read = ['cat', '/proc/sys/kernel/shm_rmid_forced'];
    expect(execFileSync('nsenter', [`--ipc=${shared.ipc}`, '--', ...read], { encoding: 'utf8' })).toBe('1\n');
    expect(execFileSync('cat', read.slice(1), { encoding: 'utf8' })).toBe('0\n');
    await resources.close(sandbox.id);
    await expect(resources.open(withSysctls({ 'kernel.shm_unknown': '1' }))).rejects.toThrow('/proc/sys/kernel/shm_unknown');
    await resources.close(sandbox.id);
  });

  it('are completed after a supervisor that was killed while it made them', async () => {
    mkdirSync(join(directory, 'shm'));
    writeFileSync(join(directory, 'ipc'), '');
    const resources = await manager();
    await resources.open(sandbox);
    expect(['shm', 'ipc'].filter((name) => isMounted(join(directory, name)))).toEqual(['shm', 'ipc']);
    await resources.close(sandbox.id);
  });

  it('are removed also if they are still being made', async () => {
    const resources = await manager();
    const opening = resources.open(sandbox);
    await resources.close(sandbox.id);
    await opening;
    expect(existsSync(join(directory, 'ipc')) && isMounted(join(directory, 'ipc'))).toBe(false);
  });
});
