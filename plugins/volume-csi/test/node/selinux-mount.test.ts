import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Container, PersistentVolume, PodSpec } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { containerFileContext, selinuxMountOptions } from '../../src/node/selinux-mount.ts';

const context = 'system_u:object_r:container_file_t:s0';
const volumeMounts = [{ name: 'data', mountPath: '/data' }];
const container = (level?: string, more: Partial<Container> = {}): Container => ({
  name: 'c',
  volumeMounts,
  ...(level !== undefined && { securityContext: { seLinuxOptions: { level } } }),
  ...more,
});
const volumeWith = (...accessModes: readonly string[]): PersistentVolume => ({ spec: { accessModes: [...accessModes] } });

function optionsOf(
  spec: Partial<PodSpec>,
  {
    volume = volumeWith('ReadWriteOncePod'),
    seLinuxMount = true,
    fileContext = context,
  }: { readonly volume?: PersistentVolume | 'inline'; readonly seLinuxMount?: boolean; readonly fileContext?: string | 'none' } = {},
) {
  const request = {
    pod: { metadata: {}, spec: { containers: [container()], ...spec } },
    volume: { name: 'data' },
    path: '/',
    readOnly: false,
    ...(volume !== 'inline' && { persistentVolume: volume }),
  };
  return selinuxMountOptions(request, { seLinuxMount }, fileContext === 'none' ? undefined : fileContext);
}

describe('the SELinux mount option of a volume', () => {
  const labeled = { securityContext: { seLinuxOptions: { level: 's0:c1,c2' } } };

  it.each([
    ['has the level of the pod', labeled, ['context="system_u:object_r:container_file_t:s0:c1,c2"']],
    [
      'has the level of the container rather than of the pod',
      { ...labeled, containers: [container('s0:c3')] },
      ['context="system_u:object_r:container_file_t:s0:c3"'],
    ],
    [
      'has the user, and neither the role nor the type of the process',
      { securityContext: { seLinuxOptions: { user: 'u', role: 'r', type: 'spc_t', level: 's0' } } },
      ['context="u:object_r:container_file_t:s0"'],
    ],
    [
      'ignores containers that do not mount the volume',
      { containers: [container('s0:c3'), container('s0:c4', { volumeMounts: [] })] },
      ['context="system_u:object_r:container_file_t:s0:c3"'],
    ],
    [
      'has the level of an init container',
      { initContainers: [container('s0:c5')], containers: [container('s0:c5')] },
      ['context="system_u:object_r:container_file_t:s0:c5"'],
    ],
    ['is absent without SELinux options', {}, []],
    ['is absent without a level', { securityContext: { seLinuxOptions: { type: 'container_t' } } }, []],
    ['is absent with recursive relabeling', { securityContext: { ...labeled.securityContext, seLinuxChangePolicy: 'Recursive' } }, []],
  ])('%s', (_, spec, expected) => {
    expect(optionsOf(spec)).toEqual(expected);
  });

  it.each([
    ['a node without SELinux', { fileContext: 'none' }],
    ['a driver without seLinuxMount', { seLinuxMount: false }],
    ['an inline volume', { volume: 'inline' }],
    ['a volume that several pods may use', { volume: volumeWith('ReadWriteOnce') }],
    ['a volume with another access mode as well', { volume: volumeWith('ReadWriteOncePod', 'ReadOnlyMany') }],
  ] as const)('is absent for %s', (_, facts) => {
    expect(optionsOf(labeled, facts)).toEqual([]);
  });

  it('does not exist for two contexts', () => {
    expect(() => optionsOf({ containers: [container('s0:c2'), container('s0:c1')] })).toThrow(
      'multiple SELinux labels found: system_u:object_r:container_file_t:s0:c1,system_u:object_r:container_file_t:s0:c2',
    );
  });
});

describe('the file context of containers', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'selinux-'));
  });
  afterEach(() => rm(root, { recursive: true, force: true }));
  const write = async (path: string, text: string) => {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  };
  const contexts = (type: string) => `process = "system_u:system_r:container_t:s0"\nfile = "system_u:object_r:${type}:s0"\n`;

  it('is absent without SELinux in the kernel', async () => {
    await write('etc/selinux/targeted/contexts/lxc_contexts', contexts('container_file_t'));
    expect(await containerFileContext(root)).toBeUndefined();
  });
  it('is that of the policy', async () => {
    await write('sys/fs/selinux/enforce', '1');
    await write('etc/selinux/config', '# policy\nSELINUX=enforcing\nSELINUXTYPE=mls\n');
    await write('etc/selinux/mls/contexts/lxc_contexts', contexts('svirt_sandbox_file_t'));
    expect(await containerFileContext(root)).toBe('system_u:object_r:svirt_sandbox_file_t:s0');
  });
  it('is that of container-selinux', async () => {
    await write('sys/fs/selinux/enforce', '0');
    await write('etc/selinux/targeted/contexts/lxc_contexts', contexts('svirt_sandbox_file_t'));
    await write('usr/share/containers/selinux/contexts', contexts('container_file_t'));
    expect(await containerFileContext(root)).toBe('system_u:object_r:container_file_t:s0');
  });
  it('is absent without contexts', async () => {
    await write('sys/fs/selinux/enforce', '1');
    expect(await containerFileContext(root)).toBeUndefined();
  });
});
