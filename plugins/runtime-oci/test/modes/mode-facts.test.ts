import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { modeFacts, modeFeaturesTable, modesTable, type ResourceControl } from '../../src/modes/mode-facts.ts';
import { describeMode } from '../../src/modes/runtime-mode.ts';
import { modeName } from '../../src/modes/limitations.ts';
import { modeNames, podSettings, type ModeName } from '../../src/modes/pod-settings.ts';

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');

/** How the table of the settings of pods describes the control of resources. */
function resourcesInSettings(mode: ModeName): ResourceControl | undefined {
  const [limits, pages] = ['limits of memory and CPU', 'limits of huge pages, exclusive CPUs'].map(
    (fields) => podSettings.find((setting) => setting.fields === fields)?.modes[mode],
  );
  if (limits?.kind === 'limited') return limits.unless === undefined ? undefined : 'delegated';
  return pages?.kind === 'enforced' ? 'all' : 'memory and CPU';
}

describe('the tables of the modes', () => {
  it('are in the README', () => {
    expect(readme).toContain(`\n\n${modesTable()}\n\n`);
    expect(readme).toContain(`\n\n${modeFeaturesTable()}\n\n`);
  });

  it.each(modeNames)('agree with the settings of pods and the messages: %s', (name) => {
    const { resources, programs, inUserNamespace } = modeFacts[name];
    expect(resourcesInSettings(name)).toBe(resources);
    const mapped = inUserNamespace ? { mapped: true as const } : {};
    const mode =
      programs === 'util-linux'
        ? ({ program: 'unshare', user: name === 'user without' ? 'user' : 'root', ...mapped } as const)
        : ({ program: 'runc', path: '/usr/sbin/runc', user: 'root', ...mapped } as const);
    expect(modeName(mode)).toBe(name);
    expect(describeMode(mode)).toContain(programs === 'util-linux' ? 'with util-linux' : 'with /usr/sbin/runc');
    expect(describeMode(mode).includes('in a user namespace with many users')).toBe(inUserNamespace);
  });
});
