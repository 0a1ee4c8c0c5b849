import type { Fault } from '@oarlock/kernel/errors';
import { closestWord } from '@oarlock/kernel/known-keys';
import { Controllers } from '@oarlock/spi/controller';
import { Roles } from '@oarlock/spi/role';
import { Scheduling } from '@oarlock/spi/scheduling';
import type { Plan } from './plan.ts';

type Path = readonly (string | number)[];
interface NameReference {
  readonly name: string;
  readonly path: Path;
}

/** A role whose settings refer to plugins by name. The role's schema cannot check the names, because the schema does not know the plugins. */
interface NameRule {
  readonly role: string;
  readonly token: symbol;
  /** Key of `declares` with which a plugin declares the name that the role's settings use. */
  readonly declares: string;
  readonly noun: string;
  references(config: unknown): readonly NameReference[];
}

const rules: readonly NameRule[] = [
  {
    role: 'controllers',
    token: Controllers.token,
    declares: 'loop',
    noun: 'controller',
    references: (config) => [...namesInList(config, ['enable']), ...namesInList(config, ['disable']), ...namesOfKeys(config, ['workers'])],
  },
  {
    role: 'scheduler',
    token: Scheduling.token,
    declares: 'plugin',
    noun: 'scheduling plugin',
    references: (config) => [...namesInList(config, ['disable']), ...namesOfKeys(config, ['weights']), ...namesInProfiles(config)],
  },
];

/**
 * Returns a fault for every unknown plugin name in role settings. Skips roles with a plugin that declares no name, because an unknown name may
 * be that plugin's.
 */
export function unknownNameFaults({ file, plugins }: Plan): readonly Fault[] {
  return rules.flatMap(({ role, token, declares, noun, references: mentions }) => {
    const planned = plugins.find(({ name, plugin }) => name === role && plugin.provides.token === Roles.token);
    const chain = plugins.filter(({ plugin }) => plugin.provides.token === token).map(({ plugin }) => plugin.declares?.[declares]);
    if (planned === undefined || chain.some((name) => typeof name !== 'string')) return [];
    const known = new Set(chain as string[]);
    return mentions(planned.config)
      .filter(({ name }) => !known.has(name))
      .map(({ name, path }): Fault => {
        const position = file.locate([...planned.segments, ...path]);
        const suggestion = closestWord(name, [...known]);
        return {
          code: 'ConfigInvalid',
          message: `unknown ${noun} ${JSON.stringify(name)}`,
          path: [planned.path, ...path].join('.'),
          ...(position && { at: position }),
          remedy: suggestion === undefined ? `known names: ${[...known].sort().join(', ')}` : `did you mean ${suggestion}?`,
        };
      });
  });
}

const valueAt = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>(
    (part, key) => (typeof part === 'object' && part !== null ? (part as Readonly<Record<string | number, unknown>>)[key] : undefined),
    value,
  );

/** Returns the names in a list of the config. Ignores values of other types, which the schema rejects. */
function namesInList(config: unknown, path: Path, key?: string): readonly NameReference[] {
  const list = valueAt(config, path);
  if (!Array.isArray(list)) return [];
  return list.flatMap((_, index) => {
    const namePath = [...path, index, ...(key === undefined ? [] : [key])];
    const name = valueAt(config, namePath);
    return typeof name === 'string' ? [{ name, path: namePath }] : [];
  });
}

function namesOfKeys(config: unknown, path: Path): readonly NameReference[] {
  const record = valueAt(config, path);
  return typeof record === 'object' && record !== null ? Object.keys(record).map((name) => ({ name, path: [...path, name] })) : [];
}

/**
 * Returns the plugin names in the profiles of a KubeSchedulerConfiguration: in the extension points and in pluginConfig. Skips `*`, which means all
 * plugins.
 */
function namesInProfiles(config: unknown): readonly NameReference[] {
  const profiles = valueAt(config, ['profiles']);
  if (!Array.isArray(profiles)) return [];
  return profiles.flatMap((_, index) => {
    const path = ['profiles', index] as const;
    const points = namesOfKeys(config, [...path, 'plugins']).map((point) => point.path);
    const sets = points.flatMap((point) => [
      ...namesInList(config, [...point, 'enabled'], 'name'),
      ...namesInList(config, [...point, 'disabled'], 'name'),
    ]);
    return [...sets.filter(({ name }) => name !== '*'), ...namesInList(config, [...path, 'pluginConfig'], 'name')];
  });
}
