import { describe, expect, it } from 'vitest';
import { limitations, modeLimitations, modeName } from '../../src/modes/limitations.ts';
import { modeNames } from '../../src/modes/pod-settings.ts';

const runc = { program: 'runc', path: '/usr/sbin/runc', user: 'root' } as const;
const root = { program: 'unshare', user: 'root' } as const;
const mapped = { ...runc, mapped: true } as const;
const user = { program: 'unshare', user: 'user' } as const;
const kernel = { seccomp: true, apparmor: true, selinux: true };
const good = { cgroups: true, networks: true, oomScores: true, kernel };
const bare = { cgroups: false, networks: false, oomScores: false, kernel: { seccomp: false, apparmor: false, selinux: false } };

describe('what a mode does not enforce', () => {
  it('is what the column of the mode lists', () => {
    expect([runc, root, mapped, user].map(modeName)).toEqual(modeNames);
    expect(modeName({ ...root, mapped: true })).toBe('root without');
    for (const mode of [runc, root]) expect(limitations(mode, good)).toEqual(modeLimitations(modeName(mode)));
    for (const mode of [mapped, user]) {
      const all = modeLimitations(modeName(mode));
      expect(limitations(mode, { ...good, cgroups: false })).toEqual(all);
      // a control group is delegated to the user
      expect(limitations(mode, good)).toEqual(all.filter(({ feature }) => feature !== 'resources'));
    }
  });

  it('includes what the machine lacks, each feature once', () => {
    const features = (...[mode, machine]: Parameters<typeof limitations>) => limitations(mode, machine).map(({ feature }) => feature);
    const nodeFeatures = ['resources', 'oom-score', 'network'];
    expect(features(runc, bare)).toEqual(['apparmor', 'selinux', 'seccomp', ...nodeFeatures]);
    for (const mode of [root, mapped, user]) expect(new Set(features(mode, bare)).size).toBe(features(mode, bare).length);
  });

  it('names security modules that the kernel lacks only to pods that request them', () => {
    const onRequest = limitations(runc, { ...good, kernel: { ...kernel, apparmor: false, selinux: false } });
    expect(onRequest).toEqual([
      { feature: 'apparmor', message: 'AppArmor profiles are not applied: the kernel of the node lacks them', onRequest: true },
      { feature: 'selinux', message: 'SELinux options are not applied: the kernel of the node lacks them', onRequest: true },
    ]);
  });
});
