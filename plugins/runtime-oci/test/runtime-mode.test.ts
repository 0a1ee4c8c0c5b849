import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { limitations, modeLimitations, modeName } from '../src/runtime-mode.ts';

const runc = { program: 'runc', path: '/usr/sbin/runc', user: 'root' } as const;
const root = { program: 'unshare', user: 'root' } as const;
const user = { program: 'unshare', user: 'user' } as const;

describe('what a mode does not enforce', () => {
  it('includes limits without control groups, and the network without namespaces', () => {
    const features = (...[mode, machine]: Parameters<typeof limitations>) => limitations(mode, machine).map(({ feature }) => feature);
    expect(features(runc, { cgroups: true, networks: true })).toEqual([]);
    expect(features(runc, { cgroups: false, networks: false })).toEqual(['resources', 'network']);
    expect(features(root, { cgroups: true, networks: true })).toEqual(['seccomp', 'apparmor', 'capabilities', 'mounts']);
    // without root there are never control groups
    expect(features(user, { cgroups: false, networks: false }).filter((feature) => feature === 'resources')).toHaveLength(1);
  });

  it('is what the README lists', () => {
    const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
    const [, section = ''] = readme.split('### What the node reports\n');
    const listed = Object.fromEntries(
      [...section.split('\n##')[0]!.matchAll(/^\| (root with runc|root without|user) \| (.*) \|$/gm)].map(
        ([, mode = '', messages = '']) => [mode, messages],
      ),
    );
    const expected = Object.entries(modeLimitations).map(([mode, list]) => [mode, list.map(({ message }) => message).join('; ') || '-']);
    expect(listed).toEqual(Object.fromEntries(expected));
    expect([runc, root, user].map(modeName)).toEqual(Object.keys(modeLimitations));
  });
});
