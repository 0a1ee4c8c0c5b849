import { describe, expect, it } from 'vitest';
import { availableCapabilities, capabilitySets, containerCapabilities } from '../../src/spec/capabilities.ts';

const available = ['CHOWN', 'KILL', 'NET_ADMIN', 'SYS_ADMIN', 'SYS_TIME'];

describe('containerCapabilities', () => {
  it('gives the defaults, and those that the pod adds and does not drop', () => {
    expect(containerCapabilities({ privileged: false }, available)).toEqual(['CHOWN', 'KILL']);
    const changed = { add: ['net_admin', 'CAP_SYS_TIME'], drop: ['KILL'], privileged: false };
    expect(containerCapabilities(changed, available)).toEqual(['CHOWN', 'NET_ADMIN', 'SYS_TIME']);
  });

  it('understands ALL', () => {
    expect(containerCapabilities({ add: ['KILL'], drop: ['ALL'], privileged: false }, available)).toEqual(['KILL']);
    expect(containerCapabilities({ add: ['ALL'], drop: ['SYS_ADMIN'], privileged: false }, available)).toEqual(
      available.filter((name) => name !== 'SYS_ADMIN'),
    );
  });

  it('gives no capability that this process lacks, and all others to a privileged container', () => {
    expect(containerCapabilities({ add: ['BPF'], privileged: false }, available)).not.toContain('BPF');
    expect(containerCapabilities({ drop: ['ALL'], privileged: true }, available)).toEqual(available);
  });

  it('fills neither the inheritable nor the ambient set', () => {
    const sets = { bounding: ['CAP_KILL'], effective: ['CAP_KILL'], permitted: ['CAP_KILL'] };
    expect(capabilitySets(['KILL'])).toEqual(sets);
    expect(new Set(availableCapabilities()).size).toBe(availableCapabilities().length);
  });
});
