import { describe, expect, it } from 'vitest';
import { containerMounts, rootPropagation, type MountSources } from '../../src/spec/mounts.ts';
import { containerConfig } from '../support/pod.ts';

const sources: MountSources = {
  shm: '/pod/shm',
  files: { '/etc/hostname': '/pod/hostname' },
  volumes: {},
  privileged: false,
  ofNode: { processes: false, messageQueues: false },
  devices: [],
};
const configOf = (...mounts: Parameters<typeof rootPropagation>[0]) => containerConfig('image', ['sh'], { mounts });

describe('containerMounts', () => {
  it('makes outer mounts before inner ones, after the default mounts', () => {
    const config = configOf({ hostPath: '/a', containerPath: '/data/inner' }, { hostPath: '/b', containerPath: '/data', readonly: true });
    expect(containerMounts(config, sources).slice(-2)).toEqual([
      { destination: '/data', type: 'bind', source: '/b', options: ['rbind', 'rprivate', 'ro'] },
      { destination: '/data/inner', type: 'bind', source: '/a', options: ['rbind', 'rprivate', 'rw'] },
    ]);
  });

  it('replaces a default mount at the same path', () => {
    const config = configOf({ hostPath: '/a', containerPath: '/dev/shm/' }, { hostPath: '/b', containerPath: '/etc/hostname' });
    const mounts = containerMounts(config, sources);
    for (const [destination, source] of [
      ['/dev/shm', '/a'],
      ['/etc/hostname', '/b'],
    ])
      expect(mounts.filter((mount) => mount.destination === destination).map((mount) => mount.source)).toEqual([source]);
  });

  it('keeps destinations inside of the container', () => {
    const [mount] = containerMounts(configOf({ hostPath: '/a', containerPath: '../../x/../y' }), sources).slice(-1);
    expect(mount?.destination).toBe('/y');
  });

  it('mounts image volumes and recursive read-only mounts read-only', () => {
    const config = configOf(
      { hostPath: '', containerPath: '/one', image: 'data' },
      { hostPath: '/a', containerPath: '/two', readonly: true, recursiveReadOnly: true },
    );
    expect(containerMounts(config, { ...sources, volumes: { 0: '/volume' } }).slice(-2)).toMatchObject([
      { source: '/volume', options: ['rbind', 'rprivate', 'ro'] },
      { source: '/a', options: ['rbind', 'rprivate', 'rro'] },
    ]);
  });

  it('makes the files of the kernel writable only for privileged containers', () => {
    const sysOf = (privileged: boolean) =>
      containerMounts(configOf(), { ...sources, privileged })
        .find(({ destination }) => destination === '/sys')
        ?.options.at(-1);
    expect([sysOf(false), sysOf(true)]).toEqual(['ro', 'rw']);
  });

  it('lets the root propagate as far as the mounts need', () => {
    const from = { hostPath: '/a', containerPath: '/a', propagation: 'HOST_TO_CONTAINER' } as const;
    expect(rootPropagation([{ hostPath: '/a', containerPath: '/a' }])).toBeUndefined();
    expect(rootPropagation([from])).toBe('rslave');
    expect(rootPropagation([from, { ...from, propagation: 'BIDIRECTIONAL' }])).toBe('rshared');
  });
});
