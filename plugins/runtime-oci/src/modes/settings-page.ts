import { modeNames, podSettings, type Enforcement } from './pod-settings.ts';

function cell(entry: Enforcement): string {
  if (entry.kind === 'limited') {
    const otherwise = `**no**: ${entry.limitation.message}`;
    return entry.unless === undefined ? otherwise : `yes, ${entry.unless}, otherwise ${otherwise}`;
  }
  const word = entry.kind === 'enforced' ? 'yes' : 'rejected';
  return entry.remark === undefined ? word : `${word}, ${entry.remark}`;
}

const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;

/** Returns the page that lists what each mode does with the settings of pods. */
export function settingsPage(): string {
  return [
    '# Settings of pods in the modes of runtime-oci',
    '',
    'Generated from `src/modes/pod-settings.ts` by `npx vitest run plugins/runtime-oci/test/modes/settings-page.test.ts -u`;',
    '`test/scenarios/security-settings.test.ts` compares each row with containers in each mode.',
    '',
    '- `yes`: enforced. `rejected`: a pod with the setting does not start, and an event states why.',
    '- **no**: not enforced. The condition `PodEnforcement` of the Node and an event of the Node have the text, and a pod that requests the setting gets the event',
    '  `PodSettingsNotEnforced`. If the kernel lacks AppArmor or SELinux, only pods that request them get the event.',
    '- Where the kernel forbids user namespaces to ordinary users, no images run: their pods wait with `ErrImagePull` and the reason.',
    '',
    line(['setting', ...modeNames]),
    line(['---', ...modeNames.map(() => '---')]),
    ...podSettings.map(({ fields, modes }) => line([fields, ...modeNames.map((mode) => cell(modes[mode]))])),
    '',
  ].join('\n');
}
